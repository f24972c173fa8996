"""The least recurrent network, which holds a recurrent operator, and a recurrence of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.networks import (
    CachedState,
    Pooler,
    TokenInput,
    cache_from_layer,
    cache_of_layer,
    pooled_output,
    recur,
    unary_output,
)
from peirce.parts import (
    Dims,
    Encoded,
    GenerativeArchitecture,
    NoOptions,
    Plan,
    RecurrentOperator,
    TensorSpec,
    Tokens,
)


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
            for name, value in cache_from_layer(i, layer.initial()).items()
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
            atoms, state = recur(layer, atoms, cache_of_layer(i, cache) or None, real)
            kept |= cache_from_layer(i, state)
        atoms = scope.zero_unary(atoms)
        return Encoded(atoms, None, self.pooler(atoms, real), scope, self.input.words()), kept

    def _layers(self) -> Iterable[RecurrentOperator]:
        return cast(Iterable[RecurrentOperator], self.layers)
