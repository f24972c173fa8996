"""shaw: a learned key and value for each clipped distance, inside attention."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.kernels import PairBias
from peirce.parts import (
    Dims,
    PairPosition,
    PlainMap,
    PlainScope,
    Tokens,
    distance_limit,
    layer_biases,
    new_table,
    offsets,
)

TERMS = ("key", "key+value")


@frozen(kw_only=True)
class ShawOptions:
    """Which terms there are and what shares their vectors.

    Args:
        terms: `key+value` as in the paper; `key` alone is the relative key of Huang et al. (2020), of which
            public sequence encoders keep one table a layer, shared by the heads, with `clip` one less than
            the longest input.
        clip: distances beyond it, either way, count as it; the paper uses 16.
        share_heads: whether the heads share their vectors, as in the paper.
        share_layers: whether the layers share their tables.
    """

    terms: Literal["key", "key+value"] = field(default="key+value", validator=validators.in_(TERMS))
    clip: int = field(default=16, validator=validators.ge(1))
    share_heads: bool = True
    share_layers: bool = False


class Shaw(PairPosition):
    """score(x,y) += q(x) . K[d] and value(x,y) += V[d], with d = max(-clip, min(clip, y - x)).

    Each table holds 2 clip + 1 vectors, from -clip to clip. The score's term is divided as the rest of the
    score is.
    """

    name = "shaw"
    source = "Shaw et al. (2018), eq. 3-4; FOLNet (Chen, 2023), eq. 34-35"
    Options = ShawOptions

    def __init__(self, options: ShawOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers = dims.layers
        self.clip = options.clip
        self.shape = (1 if options.share_heads else dims.heads, dims.head_size)
        banks = 1 if options.share_layers else dims.layers
        entries, width = 2 * options.clip + 1, self.shape[0] * self.shape[1]
        self.keys = nn.ModuleList(new_table(entries, width) for _ in range(banks))
        values = banks if options.terms == "key+value" else 0
        self.values = nn.ModuleList(new_table(entries, width) for _ in range(values))

    def pairs(self, tokens: Tokens) -> list[PairBias]:
        """One bias a layer, over the distances that the sequence can have."""
        far = distance_limit(self.clip, tokens.length)
        ids = offsets(tokens).clamp(-far, far) + far
        keys = [self._vectors(table, far) for table in self.keys]
        values = [self._vectors(table, far) for table in self.values]
        return layer_biases(self.layers, ids, None, keys, values)

    def _vectors(self, table: nn.Module, far: int) -> Tensor:
        """[1, r, g, s]."""
        weight = table.get_parameter("weight")[self.clip - far : self.clip + far + 1]
        return weight.reshape(1, 2 * far + 1, *self.shape)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: the vectors of the clipped distance."""
        clip, options, places = self.options.clip, self.options, scope.rows
        bank, heads = 0 if options.share_layers else given["layer"], range(dims.heads)

        def vector(table: str, x: int, y: int, h: int) -> list[float]:
            size = dims.head_size
            own = 0 if options.share_heads else h
            row: list[float] = parameters[f"{table}.{bank}.weight"][clip + max(-clip, min(clip, y - x))]
            assert len(row) == size * (1 if options.share_heads else dims.heads)
            return row[own * size : (own + 1) * size]

        def score(x: int, y: int, h: int) -> float:
            return sum(q * k for q, k in zip(given["query"][x][h], vector("keys", x, y, h), strict=True))

        found: dict[str, Any] = {"score": [[[score(x, y, h) for h in heads] for y in places] for x in places]}
        if options.terms == "key+value":
            found["value"] = [[[vector("values", x, y, h) for h in heads] for y in places] for x in places]
        return found
