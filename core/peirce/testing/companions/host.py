"""The least network of both branches: it has every place, and holds any part but a recurrent operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.kernels import PairBias
from peirce.networks import (
    CachedState,
    Mixing,
    Norms,
    Pooler,
    Projections,
    TokenInput,
    binary_output,
    layer_cached_states,
    pooled_output,
    run_layers,
    unary_output,
)
from peirce.parts import PLACES, Encoded, GenerativeArchitecture, NoOptions, Plan, TensorSpec, Tokens


@frozen(kw_only=True)
class HostDims:
    """The sizes of a small network of both branches; every one is a count.

    Args:
        layers: layers.
        unary: width of the unary atoms.
        binary: width of the binary atoms.
        heads: heads of the operators.
        head_size: channels within a head.
    """

    layers: int = field(validator=validators.ge(1))
    unary: int = field(validator=validators.ge(1))
    binary: int = field(validator=validators.ge(1))
    heads: int = field(validator=validators.ge(1))
    head_size: int = field(validator=validators.ge(1))


class Host(GenerativeArchitecture):
    """The least network that holds any part: each layer adds what its operators infer from the normalised atoms."""

    name = "companion"
    Dims = HostDims
    places = frozenset(PLACES)
    branches = "UB"
    layer = "j.a"
    state = ("bool",)

    @classmethod
    def sizes(cls, options: Any, dims: HostDims) -> Mapping[str, int]:
        """Both branches."""
        return {
            "layers": dims.layers,
            "unary": dims.unary,
            "binary": dims.binary,
            "heads": dims.heads,
            "head_size": dims.head_size,
            "feedforward_unary": dims.unary,
            "feedforward_binary": dims.binary,
        }

    @classmethod
    def gives(cls, options: NoOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """A pooled output and binary atoms."""
        return frozenset({"pooled", "binary"})

    def __init__(self, options: NoOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.dims = plan.dims
        self.input = TokenInput(plan, sorted(self.places))
        self.layers = nn.ModuleList(_Layer(plan) for _ in range(plan.dims.layers))
        self.norm = Norms(plan.dims)
        self.pooler = Pooler(plan.dims.unary)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Token ids, mask, token types, and what the parts add."""
        return self.input.specs()

    def outputs(self) -> tuple[TensorSpec, ...]:
        """Both branches, and the pooled output."""
        dims = self.dims
        return unary_output(dims.unary), binary_output(dims.binary), pooled_output(dims.unary)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, infer layer by layer, pool."""
        tokens = self.input.tokens(inputs)
        return self._encoded(tokens)[0], tokens

    def cached_state(self) -> tuple[TensorSpec, ...]:
        """The tokens before, and each layer's keys and values."""
        return (*self.input.cached_state(), *layer_cached_states(self.layers))

    def advance(
        self, inputs: Mapping[str, Tensor], cache: CachedState
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """The same for tokens that follow others."""
        tokens, kept = self.input.following(inputs, cache)
        encoded, own = self._encoded(tokens, cache)
        return encoded, tokens, kept | own

    def _encoded(self, tokens: Tokens, cache: CachedState | None = None) -> tuple[Encoded, dict[str, Tensor]]:
        """The final atoms of the rows, and what the layers keep of them."""
        scope = self.input.scope(tokens)
        begun = Predicates(self.input.unary(tokens), self.input.binary(tokens))
        state, own = run_layers(self.layers, begun, scope, self.input.pairs(tokens), cache)
        unary, binary = self.norm(state, scope)
        real = None if tokens.real is None else tokens.rows(tokens.real)
        return Encoded(unary, binary, self.pooler(unary, real), scope, self.input.words()), own


class _Layer(nn.Module):
    """The operators that mix tokens, then each state operator."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        projections = [Projections(plan.dims, p.kernel, p.premise, p.output) for p in plan.mixing]
        self.operators = nn.ModuleList(projections)
        self.mixing = Mixing(plan, projections)
        self.states = nn.ModuleList(planned.build(plan.dims) for planned in plan.state)
        self.norm = Norms(plan.dims)

    def forward(
        self, state: Predicates, scope: Scope, biases: Sequence[PairBias], cache: CachedState | None = None
    ) -> tuple[Predicates, CachedState]:
        state, kept = self.mixing(state, self.norm, scope, biases, cache)
        for operator in self.states:
            state = _sum(state, operator(self.norm(state, scope), scope))
        return state, kept

    def cached_channels(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The operators' keys and values, by name: the branch that they are read from, and their channels."""
        return dict(self.mixing.cached_channels())


def _sum(state: Predicates, increment: Predicates) -> Predicates:
    """Atoms with what was inferred added; no increment of the binary atoms is a zero one."""
    if increment.binary is None:
        return Predicates(state.unary + increment.unary, state.binary)
    assert state.binary is not None
    return Predicates(state.unary + increment.unary, state.binary + increment.binary)
