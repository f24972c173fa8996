"""relational: a network over a graph of labelled edges, whose layers may share their weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.networks import (
    Mixing,
    Norms,
    Projections,
    TokenInput,
    add_increment,
    binary_output,
    run_layers,
    two_branch_sizes,
    unary_output,
)
from peirce.parts import Architecture, Encoded, Plan, StateOperator, TensorSpec, Tokens


@frozen(kw_only=True)
class RelationalDims:
    """The sizes of a network over graphs; every one is a count.

    Args:
        layers: rounds of deduction.
        binary: width of the relations.
        heads: heads of the operators.
        head_size: channels within a head.
        unary: width of the nodes' properties; 1 serves where no operator reads or writes them.
        feedforward_unary: hidden width of the feed-forward network on properties; 4 * unary if 0.
        feedforward_binary: hidden width of the one on relations; 4 * binary if 0.
    """

    layers: int = field(validator=validators.ge(1))
    binary: int = field(validator=validators.ge(1))
    heads: int = field(validator=validators.ge(1))
    head_size: int = field(validator=validators.ge(1))
    unary: int = field(default=1, validator=validators.ge(1))
    feedforward_unary: int = field(default=0, validator=validators.ge(0))
    feedforward_binary: int = field(default=0, validator=validators.ge(0))


@frozen(kw_only=True)
class RelationalOptions:
    """How the layers are wired.

    Args:
        share: whether all rounds have the weights of one layer, so that a trained model takes any number of rounds.
        vary: in training up to so many rounds are left out, as many as is drawn, so that a network with shared weights
            does not count its rounds; one always stays.
        residual: what a stage adds to: the `state`, or its norm, `normed`, as the Edge Transformer does.
        affine_norm: whether norms have a weight and a bias.
        epsilon: added to the variance by the norms.
        norm: whether state operators read the norm of the state. Without, they read the state itself, which is not
            dropped out, as is meant for scores of what a relation may be, which `compose` reads.
        ends: whether the initial and the final atoms are normalised.
    """

    share: bool = False
    vary: int = field(default=0, validator=validators.ge(0))
    residual: Literal["state", "normed"] = field(
        default="state", validator=validators.in_(("state", "normed"))
    )
    affine_norm: bool = False
    epsilon: float = field(default=1e-12, validator=validators.gt(0))
    norm: bool = True
    ends: bool = True


class Relational(Architecture):
    """Rounds of deduction on a graph: `u += operators(norm u)`, then `u += f(norm u)` for each state operator f.

    Nodes have no text. Where `vocabulary` is 1 they are all alike, and `input_ids` is not an input; else `input_ids`
    says of each node which kind or which name it has.
    """

    name = "relational"
    source = "Edge Transformer (Bergen et al., 2021), Section 3; FOLNet (Chen, 2023), Section 3.3"
    Dims = RelationalDims
    Options = RelationalOptions
    places = frozenset({"unary", "binary", "pair", "rotary", "scope"})
    branches = "UB"
    layer = "jmc.atp"
    state = ("bool",)

    @classmethod
    def sizes(cls, options: RelationalOptions, dims: RelationalDims) -> Mapping[str, int]:
        """Both branches; feed-forward widths default to four times the branch's."""
        return two_branch_sizes(dims)

    @classmethod
    def gives(cls, options: RelationalOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """Binary atoms."""
        return frozenset({"binary"})

    def __init__(self, options: RelationalOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        dims = plan.dims
        self.plan = plan
        self.input = TokenInput(plan, sorted(self.places))
        self.input_norm = Norms(dims) if options.ends else None
        self.layers = nn.ModuleList(Layer(plan, options) for _ in range(1 if options.share else dims.layers))
        self.final_norm = Norms(dims) if options.ends else None
        self.vary, self.normed = options.vary, options.norm

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Which nodes are real, and what the positions ask for; the nodes' ids where they have any."""
        alike = self.plan.dims.vocabulary == 1
        return tuple(spec for spec in self.input.specs() if not (alike and spec.name == "input_ids"))

    def outputs(self) -> tuple[TensorSpec, ...]:
        """Both branches."""
        return (unary_output(self.plan.dims.unary), binary_output(self.plan.dims.binary))

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, deduce round by round, normalise."""
        tokens = self.input.tokens(self._with_ids(inputs))
        scope = self.input.scope(tokens)
        state = Predicates(self.input.unary(tokens), self.input.binary(tokens))
        if self.input_norm is not None:
            state = self.input_norm(state, scope)
        rate = self.plan.dims.dropout if self.normed else 0.0
        state = Predicates(*(F.dropout(cast(Tensor, atoms), rate, self.training) for atoms in state))
        count = self.plan.dims.layers
        if self.training and self.vary:
            count = max(1, count - int(torch.randint(self.vary + 1, ())))
        rounds = [self.layers[i % len(self.layers)] for i in range(count)]
        state, _ = run_layers(
            rounds, state, self.input.scopes(tokens, scope)[:count], self.input.pairs(tokens)[:count]
        )
        if self.final_norm is not None:
            state = self.final_norm(state, scope)
        unary, binary = scope.zero_unary(state.unary), scope.zero_binary(cast(Tensor, state.binary))
        return Encoded(unary, binary, None, scope, self.input.words()), tokens

    def _with_ids(self, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The inputs with an id for each node."""
        if "input_ids" in inputs:
            return inputs
        spec, tensor = next(
            (s, inputs[s.name]) for s in self.inputs() if s.name in inputs and "length" in s.dims
        )
        shape = tensor.shape[0], tensor.shape[spec.dims.index("length")]
        return {**inputs, "input_ids": torch.zeros(shape, dtype=torch.int64, device=tensor.device)}


class Layer(nn.Module):
    """One round. The operators own their parameters: `operators.K.NAME`."""

    def __init__(self, plan: Plan, options: RelationalOptions) -> None:
        super().__init__()
        projections: list[Any] = [Projections.of(p, plan.dims) for p in plan.mixing]
        states: list[StateOperator] = [p.build(plan.dims) for p in plan.state]
        named = [*zip(plan.mixing, projections, strict=True), *zip(plan.state, states, strict=True)]
        self.operators = nn.ModuleList(nn.ModuleDict({p.name: module}) for p, module in named)
        self.normed = options.residual == "normed"
        self.mixing = Mixing(plan, projections, normed=self.normed) if plan.mixing else None
        self._states, self.rate = tuple(states), plan.dims.dropout if options.norm else 0.0
        # A norm before each stage: that of the mixing operators, if there are any, and each state operator.
        self.norms = nn.ModuleList(
            Norms(plan.dims, affine=options.affine_norm, epsilon=options.epsilon)
            for _ in range(len(states) + bool(plan.mixing))
        )
        if not options.norm:
            for each in list(self.norms)[bool(plan.mixing) :]:
                each.unary = each.binary = nn.Identity()

    def forward(
        self, state: Predicates, scope: Scope, terms: Any, cache: Any = None
    ) -> tuple[Predicates, dict[str, Tensor]]:
        """Add what the operators infer, then what each state operator does."""
        norms = iter(self.norms)
        if self.mixing is not None:
            state, _ = self.mixing(state, cast(Any, next(norms)), scope, terms)
        for operator, norm in zip(self._states, norms, strict=True):
            normal = norm(state, scope)
            rate = self.rate if self.training else 0.0
            state = add_increment(normal if self.normed else state, operator(normal, scope), rate)
        return state, {}
