"""FOLNet: two branches of atoms, deduced layer by layer by neural logic operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.kernels import PairTerm, Rotation, on_cpu, portions
from peirce.networks import (
    CachedState,
    Mixing,
    Norms,
    Pooler,
    Projections,
    Recurrence,
    SourceReader,
    TokenInput,
    add_increment,
    binary_output,
    cached_state_specs,
    deduce_state,
    pooled_output,
    run_layers,
    two_branch_sizes,
    unary_output,
)
from peirce.parts import Encoded, GenerativeArchitecture, Plan, StateOperator, TensorSpec, Tokens


@frozen(kw_only=True)
class FolNetDims:
    """The sizes of a dual-branch network; every one is a count.

    Args:
        layers: steps of deduction.
        unary: width of the unary branch, D1.
        binary: width of the binary branch, D2.
        heads: heads of the operators, H.
        head_size: channels within a head, S.
        feedforward_unary: hidden width of bool's unary form; 4 * unary if 0.
        feedforward_binary: hidden width of bool's binary form; 4 * binary if 0.
    """

    layers: int = field(validator=validators.ge(1))
    unary: int = field(validator=validators.ge(1))
    binary: int = field(validator=validators.ge(1))
    heads: int = field(validator=validators.ge(1))
    head_size: int = field(validator=validators.ge(1))
    feedforward_unary: int = field(default=0, validator=validators.ge(0))
    feedforward_binary: int = field(default=0, validator=validators.ge(0))


@frozen(kw_only=True)
class FolNetOptions:
    """How the layers are wired.

    Args:
        wiring: `cascaded` applies bool after the other operators of a layer, `parallel` beside them (Appendix A.3).
        affine_norm: whether norms have a weight and a bias; the published network has neither.
        diag_link: whether the unary atoms enter the diagonal of the initial binary atoms, and the diagonal of the final
            binary atoms enters the unary output.
        pooler: whether there is a pooled output.
    """

    wiring: Literal["cascaded", "parallel"] = field(
        default="cascaded", validator=validators.in_(("cascaded", "parallel"))
    )
    affine_norm: bool = False
    diag_link: bool = False
    pooler: bool = True


class FolNet(GenerativeArchitecture):
    """A dual-branch network: in each layer `u += operators(norm u)`, then `u += bool(norm u)`, on both branches."""

    name = "folnet"
    source = "FOLNet (Chen, 2023), Section 3.3, Fig. 1 and Appendix A"
    Dims = FolNetDims
    Options = FolNetOptions
    places = frozenset({"unary", "binary", "pair", "rotary", "scope"})
    branches = "UB"
    layer = "jmc.atp"
    state = ("bool",)
    heterogeneous = True

    @classmethod
    def sizes(cls, options: FolNetOptions, dims: FolNetDims) -> Mapping[str, int]:
        """Both branches; feedforward widths default to four times the branch's."""
        return {**two_branch_sizes(dims), "recurrent": dims.unary}

    @classmethod
    def gives(cls, options: FolNetOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """Binary atoms always, a pooled output with a pooler."""
        return frozenset({"pooled", "binary"} if options.pooler else {"binary"})

    def __init__(self, options: FolNetOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        dims = plan.dims
        self.plan = plan
        self.input = TokenInput(plan, sorted(self.places))
        self.input_norm = Norms(plan.dims, affine=options.affine_norm)
        self.layers = nn.ModuleList(Layer(plan.layer(i), options) for i in range(dims.layers))
        self.final_norm = Norms(plan.dims, affine=options.affine_norm)
        self.diagonal_in = nn.Linear(dims.unary, dims.binary) if options.diag_link else None
        self.diagonal_out = nn.Linear(dims.binary, dims.unary) if options.diag_link else None
        self.pooler = Pooler(dims.unary) if options.pooler else None

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Token ids, mask, token types, and what the parts add."""
        return self.input.specs()

    def outputs(self) -> tuple[TensorSpec, ...]:
        """Both branches, and the pooled output."""
        dims = self.plan.dims
        pooled = (pooled_output(dims.unary),) if self.pooler is not None else ()
        return (unary_output(dims.unary), binary_output(dims.binary), *pooled)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, deduce layer by layer, normalise, pool; on a CPU, a few examples at a time."""
        tokens = self.input.tokens(inputs)
        apart = on_cpu(self.input.embedding.weight) and not self._is_observed()
        parts = self._split_batch(inputs, tokens.length) if apart else []
        if not parts:
            return self._encode(tokens), tokens
        encoded = [self._encode(self.input.tokens(some)) for _, some in parts]
        place = torch.cat([rows for rows, _ in parts]).argsort().tolist()

        def join_rows(tensors: list[Tensor], axes: int = 0) -> Tensor:
            each = [
                example for atoms in tensors for example in _pad_tokens(atoms, tokens.length, axes).split(1)
            ]
            return torch.cat([each[row] for row in place])

        unary = join_rows([part.unary for part in encoded], 1)
        binary = join_rows([cast(Tensor, part.binary) for part in encoded], 2)
        pooled = None if self.pooler is None else join_rows([cast(Tensor, part.pooled) for part in encoded])
        return Encoded(unary, binary, pooled, self.input.scope(tokens), self.input.words()), tokens

    def _is_observed(self) -> bool:
        """Whether hooks read what layers compute in this pass, or a loss has a term of all examples."""
        return any(
            module._forward_hooks
            or module._forward_pre_hooks
            or (
                self.training
                and isinstance(module, StateOperator)
                and type(module).terms != StateOperator.terms
            )
            for module in self.layers.modules()
        )

    def _split_batch(
        self, inputs: Mapping[str, Tensor], length: int
    ) -> list[tuple[Tensor, dict[str, Tensor]]]:
        """Groups of rows with their inputs, cut after the last real token; empty if the batch need not be split."""
        real = inputs.get("attention_mask") if self.plan.scope.mask_padding else None
        lengths = torch.full(inputs["input_ids"].shape[:1], length)
        if real is not None:
            lengths = (real * torch.arange(1, length + 1)).amax(1).clamp_min(1)
        parts = portions(self.input.embedding.weight, lengths, self.plan.dims.binary)
        if len(parts) <= 1 and bool((lengths == length).all()):
            return []
        dims, found = {spec.name: spec.dims for spec in self.inputs()}, []
        for rows in parts:
            last = int(lengths[rows].max())
            some = {
                name: _slice_examples(each, dims.get(name, ()), rows, last) for name, each in inputs.items()
            }
            found.append((rows, some))
        return found

    def _encode(self, tokens: Tokens) -> Encoded:
        """All layers, for the examples of `tokens`."""
        scope = self.input.scope(tokens)
        state, _ = run_layers(
            self.layers,
            self._begin(tokens, scope),
            self.input.scopes(tokens, scope),
            self.input.pairs(tokens),
        )
        return self._end(state, tokens, scope)

    def cached_state(self) -> tuple[TensorSpec, ...]:
        """The tokens before, and each layer's keys and values."""
        return (*self.input.cached_state(), *cached_state_specs(self.layers))

    def advance(
        self, inputs: Mapping[str, Tensor], cache: CachedState
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """Infer the atoms of tokens that follow others: O(T) each, and O(T^2 d2) where relations are composed."""
        tokens, kept = self.input.following(inputs, cache)
        scope, pairs = self.input.scope(tokens), self.input.pairs(tokens)
        begun = self._begin(tokens, scope)
        state, layer_cache = run_layers(self.layers, begun, self.input.scopes(tokens, scope), pairs, cache)
        return self._end(state, tokens, scope), tokens, kept | layer_cache

    def _end(self, state: Predicates, tokens: Tokens, scope: Scope) -> Encoded:
        """Normalise the atoms of the rows, and pool them."""
        unary, binary = self.final_norm(state, scope)
        assert binary is not None
        if self.diagonal_out is not None:
            unary = scope.zero_unary(unary + self.diagonal_out(scope.diagonal(binary)))
        real = None if tokens.real is None else tokens.rows(tokens.real)
        pooled = self.pooler(unary, real) if self.pooler is not None else None
        return Encoded(unary, binary, pooled, scope, self.input.words())

    def _begin(self, tokens: Tokens, scope: Scope) -> Predicates:
        """The initial atoms, normalised and dropped out."""
        unary, binary = self.input.unary(tokens), self.input.binary(tokens)
        if self.diagonal_in is not None:
            place = torch.arange(tokens.length, device=binary.device)
            diagonal = (tokens.rows(place, 0).unsqueeze(1) == place).unsqueeze(-1)
            # Chosen, not multiplied: off the diagonal the norm's gradient may overflow, and must not meet a zero.
            binary = torch.where(diagonal, binary + self.diagonal_in(unary).unsqueeze(2), binary)
        state = self.input_norm(Predicates(unary, binary), scope)
        rate = self.plan.dims.dropout
        return Predicates(*(F.dropout(atoms, rate, self.training) for atoms in state))


def _slice_examples(value: Tensor, dims: Sequence[str | int], rows: Tensor, length: int) -> Tensor:
    """Some examples of an input, up to a token."""
    value = value.index_select(dims.index("batch"), rows) if "batch" in dims else value
    return value[tuple(slice(length if dim == "length" else None) for dim in dims)]


def _pad_tokens(atoms: Tensor, length: int, axes: int) -> Tensor:
    """Atoms [b, x, ..., d] padded with zeros to `length` tokens, in each of the first `axes` axes of tokens."""
    missing = length - atoms.shape[1]
    return F.pad(atoms, (0, 0, *(0, missing) * axes)) if missing else atoms


class Layer(nn.Module):
    """One step of deduction. The operators own their parameters: `operators.K.NAME`.

    With `source` it is a decoder's layer, and its attribute `source` reads keys and values from the encoder's atoms.
    """

    def __init__(self, plan: Plan, options: FolNetOptions, *, source: bool = False) -> None:
        super().__init__()
        projections: list[Any] = [
            Projections.of(p, plan.dims, source=source) if p.operator else p.build(plan.dims)
            for p in plan.mixing
        ]
        states: list[StateOperator] = [p.build(plan.dims) for p in plan.state]
        named = [*zip(plan.mixing, projections, strict=True), *zip(plan.state, states, strict=True)]
        self.operators = nn.ModuleList(nn.ModuleDict({p.name: module}) for p, module in named)
        recurrent = any(p.operator is None for p in plan.mixing)
        self.mixing = Recurrence(plan, projections[0]) if recurrent else Mixing(plan, projections)
        self.source = SourceReader(plan, projections) if source and not recurrent else None
        self._states = tuple(states)
        self.parallel = options.wiring == "parallel"
        self.rate = plan.dims.dropout
        self.mixing_norm = Norms(plan.dims, affine=options.affine_norm)
        self.state_norm = None if self.parallel else Norms(plan.dims, affine=options.affine_norm)

    def forward(
        self,
        state: Predicates,
        scope: Scope,
        terms: Sequence[PairTerm | Rotation],
        cache: CachedState | None = None,
    ) -> tuple[Predicates, CachedState]:
        """Add what the operators infer from the normalised atoms; return keys and values for later tokens too."""
        normal = self.mixing_norm(state, scope) if self.parallel else state
        state, kept = self.mixing(state, self.mixing_norm, scope, terms, cache)
        rate = self.rate if self.training else 0.0
        for operator in self._states:
            if self.state_norm is None:
                state = add_increment(state, operator(normal, scope), rate)
            else:
                state = deduce_state(operator, state, self.state_norm, scope, rate)
        return state, kept

    def read_source(
        self, source: Predicates, scope: Scope, rotations: Sequence[Rotation] = ()
    ) -> dict[str, Tensor]:
        """A decoder layer's keys and values of the source tokens, by name, from the encoder's final atoms and scope.

        A recurrent operator reads the target's tokens alone, and there are none.
        """
        return {} if self.source is None else self.source(source, scope, rotations)

    def cached_channels(self) -> dict[str, tuple[str | None, tuple[int, ...]]]:
        """The operators' keys and values, by name: the branch that they are read from, and their channels."""
        return dict(self.mixing.cached_channels())
