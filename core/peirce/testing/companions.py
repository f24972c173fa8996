"""Plain parts that the suite composes others with, where a registry has none of its own.

A plug-in's parts are checked in whole models too, and a package of augmenters alone has no architecture to stand in.
`companied` adds what is lacking: an architecture with both branches and every place, the operators of attention, a
state operator, and binary atoms to begin with; and a recurrent network with a recurrence of its own. They compute what
they say, and pass the suite themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Norm, Predicates, Scope
from peirce.kernels import PairBias
from peirce.parts import (
    PLACES,
    Architecture,
    BinaryPosition,
    CachedState,
    Dims,
    Encoded,
    GenerativeArchitecture,
    Mixing,
    NoOptions,
    Operator,
    Plan,
    Pooler,
    Position,
    Projections,
    Reader,
    RecurrentOperator,
    StateOperator,
    TensorSpec,
    TokenInput,
    Tokens,
    Writer,
    binary_output,
    layer_cached_states,
    named_of_layer,
    new_table,
    of_layer,
    offsets,
    pooled_output,
    recur,
    through,
    unary_output,
)
from peirce.registry import Registered, Registry, hookimpl


class Score(Operator):
    """u[h](x,y) = sum_s K[h,s](x) v[h,s](y)."""

    name = "assoc"
    letter = "a"
    typing = "B <- U x U"
    scope_rule = "pairwise"
    pair = "score"

    def kernel(self) -> Reader:
        """K: [b, x, h, s]."""
        return Reader(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def premise(self) -> Reader:
        """v: [b, y, h, s]."""
        shape = {"h": self.dims.heads, "s": self.dims.head_size}
        return Reader(branch="U", shape=shape, attended=True)

    def output(self) -> Writer:
        """u: [b, x, y, h]."""
        return Writer(branch="B", shape={"h": self.dims.heads})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, h, s], [b, y, h, s] -> [b, x, y, h]."""
        return (kernel.transpose(1, 2) @ premise.permute(0, 2, 3, 1)).permute(0, 2, 3, 1)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The sum over s, term by term."""
        return [
            [
                [sum(k * v for k, v in zip(*pair, strict=True)) for pair in zip(row, other, strict=True)]
                for other in premise
            ]
            for row in kernel
        ]


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
        shape = {"h": self.dims.heads, "s": self.dims.head_size}
        return Reader(branch="U", shape=shape, attended=True)

    def output(self) -> Writer:
        """u: [b, x, h, s]."""
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, a, h], [b, a, h, s] -> [b, x, h, s]."""
        return (kernel.permute(0, 3, 1, 2) @ premise.transpose(1, 2)).transpose(1, 2)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The sum over a, term by term."""
        heads, sizes = range(self.dims.heads), range(self.dims.head_size)
        return [
            [[sum(k[h] * v[h][s] for k, v in zip(row, premise, strict=True)) for s in sizes] for h in heads]
            for row in kernel
        ]


class Here(StateOperator):
    """u(x) += W' tanh(W u(x)) and u(x,y) += V' tanh(V u(x,y))."""

    name = "bool"
    typing = "UB <- UB"
    scope_rule = "pairwise"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.unary = _hidden(dims.unary, dims.feedforward_unary)
        self.binary = _hidden(dims.binary, dims.feedforward_binary) if dims.binary else None

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of the branches that there are."""
        pairs = None
        if state.binary is not None and self.binary is not None:
            pairs = self.binary(state.binary)
        return Predicates(self.unary(state.unary), pairs)


def _hidden(width: int, hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, width))


class Offset(BinaryPosition):
    """u(x,y) = table[max(-2, min(y - x, 2)) + 2], counted over real tokens."""

    name = "companion"

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
        self.norm = _Norms(plan.dims)
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
        state, own = through(self.layers, begun, scope, self.input.pairs(tokens), cache)
        unary, binary = self.norm(state, scope)
        real = None if tokens.real is None else tokens.rows(tokens.real)
        return Encoded(unary, binary, self.pooler(unary, real), scope, self.input.words()), own


class _Norms(nn.Module):
    """A norm for each branch, with exact zeros outside the scope."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.unary, self.binary = Norm(dims.unary, affine=False), Norm(dims.binary, affine=False)

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        assert state.binary is not None
        return Predicates(
            scope.zero_unary(self.unary(state.unary)), scope.zero_binary(self.binary(state.binary))
        )


class _Layer(nn.Module):
    """The operators that mix tokens, then each state operator."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        projections = [Projections(plan.dims, p.kernel, p.premise, p.output) for p in plan.mixing]
        self.operators = nn.ModuleList(projections)
        self.mixing = Mixing(plan, projections)
        self.states = nn.ModuleList(planned.build(plan.dims) for planned in plan.state)
        self.norm = _Norms(plan.dims)

    def forward(
        self, state: Predicates, scope: Scope, biases: Sequence[PairBias], cache: CachedState | None = None
    ) -> tuple[Predicates, CachedState]:
        increment, kept = self.mixing(self.norm(state, scope), scope, biases, cache)
        state = _sum(state, increment)
        for operator in self.states:
            state = _sum(state, operator(self.norm(state, scope), scope))
        return state, kept

    def kept(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The operators' keys and values, by name: the branch that they are read from, and their channels."""
        return {name: (branch, shape) for name, (branch, shape) in self.mixing.cached_channels().items()}


def _sum(state: Predicates, increment: Predicates) -> Predicates:
    """Atoms with what was inferred added; no increment of the binary atoms is a zero one."""
    if increment.binary is None:
        return Predicates(state.unary + increment.unary, state.binary)
    assert state.binary is not None
    return Predicates(state.unary + increment.unary, state.binary + increment.binary)


class Fading(RecurrentOperator):
    """h(x) = (h(x-1) + tanh(W u(x))) / 2, from zeros."""

    name = "companion"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.map = nn.Linear(dims.unary, dims.recurrent, bias=False)

    def read(self, atoms: Tensor) -> Tensor:
        """[b, x, d1] -> [b, x, r]."""
        return self.map(atoms).tanh()

    def initial(self) -> Mapping[str, Tensor]:
        """Zeros, [r]."""
        return {"output": self.map.weight.new_zeros(self.map.out_features)}

    def step(
        self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """See `RecurrentOperator.step`."""
        output = (state["output"] + read) / 2
        return output, {"output": output}

    def reference(self, atoms: list[list[float]], parameters: Mapping[str, Any]) -> list[list[float]]:
        """Token by token, channel by channel."""
        rows = parameters["map.weight"]
        output, outputs = [0.0] * len(rows), []
        for atom in atoms:
            read = [math.tanh(sum(w * a for w, a in zip(row, atom, strict=True))) for row in rows]
            output = [(h + new) / 2 for h, new in zip(output, read, strict=True)]
            outputs.append(output)
        return outputs


@frozen(kw_only=True)
class RecurrentHostDims:
    """The sizes of a small recurrent network; every one is a count.

    Args:
        layers: recurrences on top of each other.
        unary: width of the unary atoms.
    """

    layers: int = field(validator=validators.ge(1))
    unary: int = field(validator=validators.ge(1))


class RecurrentHost(GenerativeArchitecture):
    """The least network that holds a recurrent operator: each layer reads the one below from left to right."""

    name = "companion_recurrent"
    Dims = RecurrentHostDims
    places = frozenset({"unary"})
    branches = "U"
    layer = "companion"
    recurrent = True

    @classmethod
    def sizes(cls, options: Any, dims: RecurrentHostDims) -> Mapping[str, int]:
        """One direction has the whole width."""
        return {"layers": dims.layers, "unary": dims.unary, "recurrent": dims.unary}

    @classmethod
    def check_scope(cls, options: Any, scope: str) -> str | None:
        """Why it cannot read in a kind of scope."""
        return None if scope in ("bidirectional", "causal") else "it reads from left to right"

    @classmethod
    def gives(cls, options: NoOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """A pooled output."""
        return frozenset({"pooled"})

    def __init__(self, options: NoOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.input = TokenInput(plan, sorted(self.places))
        (planned,) = plan.mixing
        self.layers = nn.ModuleList(planned.build(plan.dims) for _ in range(plan.dims.layers))
        self.pooler = Pooler(plan.dims.unary)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Token ids, mask, token types, and what the parts add."""
        return self.input.specs()

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The atoms, and the pooled output."""
        width = self.pooler.dense.in_features
        return unary_output(width), pooled_output(width)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, read layer by layer, pool."""
        tokens = self.input.tokens(inputs)
        return self._encoded(tokens, {})[0], tokens

    def cached_state(self) -> tuple[TensorSpec, ...]:
        """The tokens before, and each layer's state after the last of them."""
        states = [
            TensorSpec(
                name=name, dtype="float", dims=("batch", *value.shape), meaning="The state of a layer."
            )
            for i, layer in enumerate(self._layers())
            for name, value in named_of_layer(i, layer.initial()).items()
        ]
        return (*self.input.cached_state(), *states)

    def advance(
        self, inputs: Mapping[str, Tensor], cache: CachedState
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """The same for tokens that follow others."""
        tokens, kept = self.input.following(inputs, cache)
        encoded, own = self._encoded(tokens, cache)
        return encoded, tokens, kept | own

    def _encoded(self, tokens: Tokens, cache: CachedState) -> tuple[Encoded, dict[str, Tensor]]:
        """The final atoms of the rows, and the layers' states after them. Padding leaves a state as it is."""
        scope = self.input.scope(tokens)
        kept: dict[str, Tensor] = {}
        real = None if tokens.real is None else tokens.rows(tokens.real)
        atoms = self.input.unary(tokens)
        for i, layer in enumerate(self._layers()):
            atoms, state = recur(layer, atoms, of_layer(i, cache) or None, real)
            kept |= named_of_layer(i, state)
        atoms = scope.zero_unary(atoms)
        return Encoded(atoms, None, self.pooler(atoms, real), scope, self.input.words()), kept

    def _layers(self) -> Iterable[RecurrentOperator]:
        return cast(Iterable[RecurrentOperator], self.layers)


@hookimpl
def register_operators() -> list[type[Operator | StateOperator | RecurrentOperator]]:
    """The two halves of attention, what one place implies, and a recurrence."""
    return [Score, Sum, Here, Fading]


@hookimpl
def register_positions() -> list[type[Position]]:
    """Binary atoms to begin with."""
    return [Offset]


@hookimpl
def register_architectures() -> list[type[Architecture]]:
    """A host for any part, and one for recurrent operators."""
    return [Host, RecurrentHost]


def companied(registry: Registry) -> Registry:
    """A registry with companions for its parts, under names and letters that it lacks."""
    return registry.completed(__name__)


def last(entry: Registered) -> bool:
    """A key that sorts companions after a registry's own parts."""
    return entry.part.__module__ == __name__
