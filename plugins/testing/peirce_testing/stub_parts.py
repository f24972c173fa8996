"""The least parts that the suite composes others with, where a registry has none of its own.

A plug-in's parts are checked in whole models too, and a package of augmenters alone has no architecture to stand in.
`with_stub_parts` adds what is lacking: an architecture with both branches and every place, two operators for its
layers, one that sums values and one that scores pairs, and binary atoms to begin with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from attrs import asdict, field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.kernels import PairTerm, Rotation
from peirce.networks import (
    CachedState,
    Mixing,
    Norms,
    Pooler,
    Projections,
    TokenInput,
    binary_output,
    cached_state_specs,
    pooled_output,
    run_layers,
    unary_output,
)
from peirce.parts import (
    PLACES,
    Architecture,
    BinaryPosition,
    Dims,
    Encoded,
    GenerativeArchitecture,
    NoOptions,
    Operator,
    Plan,
    Position,
    Reader,
    TensorSpec,
    Tokens,
    Writer,
    new_table,
    offsets,
)
from peirce.registry import Registered, Registry, hookimpl

_exact = partial(torch.tensor, dtype=torch.float64)


def _count() -> Any:
    return field(validator=validators.ge(1))


@frozen(kw_only=True)
class HostDims:
    """The sizes of a small network of both branches; every one is a count."""

    layers: int = _count()
    unary: int = _count()
    binary: int = _count()
    heads: int = _count()
    head_size: int = _count()


class Host(GenerativeArchitecture):
    """Each layer adds to the atoms what its operators infer from the normalised atoms."""

    name = "stub"
    Dims = HostDims
    places = frozenset(PLACES)
    branches = "UB"
    layer = "j.a"

    @classmethod
    def sizes(cls, options: Any, dims: HostDims) -> Mapping[str, int]:
        """The widths, which feed-forward operators have too."""
        return asdict(dims) | {"feedforward_unary": dims.unary, "feedforward_binary": dims.binary}

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
        """The tokens before, and what each layer's operators attend to."""
        return (*self.input.cached_state(), *cached_state_specs(self.layers))

    def advance(
        self, inputs: Mapping[str, Tensor], cache: CachedState
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """Infer tokens that follow others."""
        tokens, kept = self.input.following(inputs, cache)
        encoded, cached = self._encoded(tokens, cache)
        return encoded, tokens, kept | cached

    def _encoded(self, tokens: Tokens, cache: CachedState | None = None) -> tuple[Encoded, dict[str, Tensor]]:
        """The final atoms of the rows, and what the layers keep of them."""
        scope = self.input.scope(tokens)
        begun = Predicates(self.input.unary(tokens), self.input.binary(tokens))
        scopes, pairs = self.input.scopes(tokens, scope), self.input.pairs(tokens)
        state, cached = run_layers(self.layers, begun, scopes, pairs, cache)
        unary, binary = self.norm(state, scope)
        real = None if tokens.real is None else tokens.rows(tokens.real)
        return Encoded(unary, binary, self.pooler(unary, real), scope, self.input.words()), cached


class _Layer(nn.Module):
    """The operators that mix tokens, then each state operator."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        projections = [Projections.of(p, plan.dims) for p in plan.mixing]
        self.operators = nn.ModuleList(projections)
        self.mixing = Mixing(plan, projections)
        self.states = nn.ModuleList(planned.build(plan.dims) for planned in plan.state)
        self.norm = Norms(plan.dims)

    def forward(
        self,
        state: Predicates,
        scope: Scope,
        terms: Sequence[PairTerm | Rotation],
        cache: CachedState | None = None,
    ) -> tuple[Predicates, CachedState]:
        state, kept = self.mixing(state, self.norm, scope, terms, cache)
        for operator in self.states:
            unary, binary = operator(self.norm(state, scope), scope)  # None stands for zeros
            state = Predicates(state.unary + unary, state.binary if binary is None else state.binary + binary)
        return state, kept

    def cached_channels(self) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        """What the operators cache: the branch that it is read from, and its channels."""
        return self.mixing.cached_channels()


class Sum(Operator):
    """u[h,s](x) = sum_a K[h](x,a) v[h,s](a), with K a softmax over a."""

    name = "join"
    letter = "j"
    typing = "U <- B x U"
    scope_rule = "reduce"
    pair = "value"

    def kernel(self) -> Reader:
        """K: [b, x, a, h]."""
        return Reader(branch="B", shape={"h": self.dims.heads}, activation="softmax")

    def premise(self) -> Reader:
        """v: [b, a, h, s]."""
        return Reader(branch="U", shape=self.output().shape, cached=True)

    def output(self) -> Writer:
        """u: [b, x, h, s]."""
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, a, h], [b, a, h, s] -> [b, x, h, s]."""
        return (kernel.permute(0, 3, 1, 2) @ premise.transpose(1, 2)).transpose(1, 2)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The sum over a."""
        return torch.einsum("xah,ahs->xhs", _exact(kernel), _exact(premise)).tolist()


class Score(Operator):
    """u[h](x,y) = sum_s K[h,s](x) v[h,s](y)."""

    name = "assoc"
    letter = "a"
    typing = "B <- U x U"
    scope_rule = "pairwise"
    pair = "score"

    def kernel(self) -> Reader:
        """K: [b, x, h, s]."""
        shape = {"h": self.dims.heads, "s": self.dims.head_size}
        return Reader(branch="U", shape=shape, scale=self.dims.head_size**-0.25)

    def premise(self) -> Reader:
        """v: [b, y, h, s]."""
        return Reader(branch="U", shape=self.kernel().shape, scale=self.kernel().scale, cached=True)

    def output(self) -> Writer:
        """u: [b, x, y, h]."""
        return Writer(branch="B", shape={"h": self.dims.heads})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, h, s], [b, y, h, s] -> [b, x, y, h]."""
        return (kernel.transpose(1, 2) @ premise.permute(0, 2, 3, 1)).permute(0, 2, 3, 1)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The sum over s."""
        return torch.einsum("xhs,yhs->xyh", _exact(kernel), _exact(premise)).tolist()


class Offset(BinaryPosition):
    """u(x,y) = table[max(-2, min(y - x, 2)) + 2], counted over real tokens."""

    name = "stub"

    @classmethod
    def check(cls, options: NoOptions, dims: Dims, scope: str) -> str | None:
        """Why there is nothing to put the offsets in."""
        return None if dims.binary else "it gives the initial binary atoms, and the model has none"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.table = new_table(5, dims.binary)

    def binary(self, tokens: Tokens) -> Tensor:
        """[b or 1, x, y, d2]."""
        return self.table(offsets(tokens).clamp(-2, 2) + 2)


@hookimpl
def register_operators() -> list[type[Any]]:
    """One that sums over tokens, and one that scores pairs."""
    return [Sum, Score]


@hookimpl
def register_positions() -> list[type[Position]]:
    """Binary atoms to begin with."""
    return [Offset]


@hookimpl
def register_architectures() -> list[type[Architecture]]:
    """A host for any part but recurrent operators, which need an architecture of theirs."""
    return [Host]


def with_stub_parts(registry: Registry) -> Registry:
    """A registry with stub parts for its parts, under names and letters that it lacks."""
    return registry.completed(__name__)


def is_stub(entry: Registered) -> bool:
    """Whether a part is one of these."""
    return bool(entry.part.__module__ == __name__)
