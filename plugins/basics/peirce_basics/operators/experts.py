"""experts: of several feed-forward networks, each token goes through the few that a router chooses for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

import torch
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope, at_least_float32
from peirce.parts import (
    Dims,
    PlainMap,
    PlainScope,
    StateOperator,
    has_static_shapes,
    plain_linear,
    plain_softmax,
    without_autocast,
)
from peirce_basics.operators.feedforward import KINDS, GeluOptions, hidden_layer, plain_hidden

Kind = Literal["gelu", "relu", "silu", "reglu", "geglu", "swiglu"]
BALANCE = "experts_balance"
"""The term of the loss that keeps the experts equally busy."""


@frozen(kw_only=True)
class ExpertsOptions:
    """How many networks there are, and how tokens are divided among them.

    Args:
        experts: networks, each `feedforward` wide.
        top_k: how many of them a token goes through.
        network: what each of them is.
        bias: whether their maps have biases.
        tanh: whether their gelu is approximated by tanh.
        normalise: whether the weights of the chosen sum to 1, as in Mixtral; otherwise they are the router's
            probabilities, as in Switch.
        balance: the factor of the load-balancing loss.
    """

    experts: int = field(default=8, validator=validators.ge(2))
    top_k: int = field(default=2, validator=validators.ge(1))
    network: Kind = field(default="swiglu", validator=validators.in_(get_args(Kind)))
    bias: bool = False
    tanh: bool = False
    normalise: bool = True
    balance: float = field(default=0.01, validator=validators.ge(0))


class Experts(StateOperator):
    """u(x) += sum_i w_i(x) E_i(u(x)) over the top_k experts i of the largest p_i(x) = softmax(R u(x))_i.

    w_i is p_i, or p_i over the sum of the chosen ones. No token is dropped: an expert takes as many as choose it. In
    training the loss gains balance * n sum_i f_i P_i in each layer: n experts, f_i the choices of i per token, P_i the
    mean of p_i, both over the real tokens; it is least where experts are equally busy.

    In a traced graph every expert reads every token, and those that were not chosen weigh zero.
    """

    name = "experts"
    typing = "U <- U"
    scope_rule = "none"
    source = "Switch Transformers (Fedus et al., 2021), eq. 1-6; Mixtral (Jiang et al., 2024), Section 2.1"
    Options = ExpertsOptions
    example: ClassVar = {"experts": 3}

    @classmethod
    def check(cls, options: ExpertsOptions, dims: Dims, scope: str) -> str | None:
        """A token can only go through experts that there are, and the router must learn."""
        if options.top_k > options.experts:
            return (
                f"top_k = {options.top_k} of {options.experts} experts; choose at most as many as there are"
            )
        if options.top_k == 1 and options.normalise:
            return (
                "with top_k = 1 the one weight would always be 1, and the router would learn nothing from the task; "
                "set normalise = false, as Switch has it, or top_k = 2"
            )
        if options.tanh and KINDS[options.network].Options is not GeluOptions:
            return f"tanh is for networks with gelu, and these are {options.network}; leave it out"
        return None

    def __init__(self, options: ExpertsOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        kind = KINDS[options.network]
        expert_options = GeluOptions(bias=options.bias, tanh=options.tanh)
        self.router = nn.Linear(dims.unary, options.experts, bias=False)
        self.experts = nn.ModuleList(hidden_layer(kind, expert_options, dims) for _ in range(options.experts))
        self._balance: Tensor | None = None

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of the unary atoms, [b, x, d1]."""
        atoms = state.unary
        probabilities = self._probabilities(atoms)
        chosen, ids = probabilities.topk(self.options.top_k, -1)
        if self.options.normalise:
            chosen = chosen / chosen.sum(-1, keepdim=True)
        if self.training:
            self._balance = self._balancing_loss(probabilities, ids, scope.tokens)
        if has_static_shapes(atoms):
            weights = torch.zeros_like(probabilities).scatter(-1, ids, chosen).to(atoms.dtype)
            every = (expert(atoms) * weights[..., i, None] for i, expert in enumerate(self.experts))
            return Predicates(sum(every, torch.zeros_like(atoms)))
        flat, weights, ids = atoms.flatten(0, 1), chosen.flatten(0, 1).to(atoms.dtype), ids.flatten(0, 1)
        total = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            # An expert that nobody chose reads no token, so that its parameters have gradients, which are zero.
            rows, place = (ids == i).nonzero(as_tuple=True)
            given = expert(flat[rows]) * weights[rows, place, None]
            total = total.index_add(0, rows, given.to(total.dtype))
        return Predicates(total.view_as(atoms))

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Token by token: the choice, the networks' sum, and how busy they were and were wanted."""
        options, tokens = self.options, range(len(given["unary"]))
        count = options.experts
        chances = plain_softmax(plain_linear(given["unary"], parameters, "router", count, bias=False))
        every = [
            plain_hidden(given["unary"], options.network, options, parameters, f"experts.{i}", dims)
            for i in range(count)
        ]
        chosen = [sorted(range(count), key=lambda i: -chances[x][i])[: options.top_k] for x in tokens]
        sums = [sum(chances[x][i] for i in chosen[x]) if options.normalise else 1.0 for x in tokens]
        found = [sum(chances[x][i] / sums[x] * every[i][x] for i in chosen[x]) for x in tokens]
        busy = [sum(i in chosen[x] for x in tokens) / len(tokens) for i in range(count)]
        wanted = [sum(chances[x][i] for x in tokens) / len(tokens) for i in range(count)]
        balance = options.balance * count * sum(f * p for f, p in zip(busy, wanted, strict=True))
        return {"unary": found, BALANCE: balance}

    def terms(self) -> Mapping[str, Tensor]:
        """The balancing loss of the last pass in training."""
        balance, self._balance = self._balance, None
        return {} if balance is None else {BALANCE: balance}

    def _probabilities(self, atoms: Tensor) -> Tensor:
        """[b, x, d1] -> [b, x, n], in at least float32: Switch, Section 2.4."""
        exact = at_least_float32(atoms)
        with without_autocast(exact):
            return nn.functional.linear(exact, self.router.weight.to(exact.dtype)).softmax(-1)

    def _balancing_loss(self, probabilities: Tensor, ids: Tensor, real: Tensor | None) -> Tensor:
        """The balancing loss: choices and chances, both [b, x, ...], over the real tokens, bool [b, x] or None."""
        count = self.options.experts
        choices = torch.zeros_like(probabilities).scatter(-1, ids, 1.0)
        if real is None:
            busy, wanted = choices.mean((0, 1)), probabilities.mean((0, 1))
        else:
            mask = real.unsqueeze(-1).to(probabilities.dtype)
            tokens = mask.sum().clamp_min(1)
            busy, wanted = ((each * mask).sum((0, 1)) / tokens for each in (choices, probabilities))
        return self.options.balance * count * (busy * wanted).sum()
