"""cope: positions that each query counts itself, by which keys it opens a gate for."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Scope, at_least_float32
from peirce.parts import Dims, PairPosition, PlainMap, PlainScope, Tokens


@frozen(kw_only=True)
class CopeOptions:
    """How many positions are told apart, and what shares their vectors.

    Args:
        positions: vectors, of the positions from 0 on; a count beyond the last counts as the last.
        share_heads: whether the heads share the vectors, as in the published code; their counts are their own.
        share_layers: whether the layers share them.
    """

    positions: int = field(default=64, validator=validators.ge(2))
    share_heads: bool = True
    share_layers: bool = False


class CopeTerm(NamedTuple):
    """q(x) . e[p(x,y)], e between two vectors at once by how near p is to each.

    Args:
        vectors: e, [h or 1, n, s], with the scale of queries taken off.
    """

    vectors: Tensor

    def part(self, items: slice, rows: slice) -> CopeTerm:
        """The same: all rows share the vectors."""
        return self

    def score_term(self, query: Tensor, key: Tensor, scores: Tensor, scope: Scope) -> Tensor:
        """[b, x, a, h]."""
        last = self.vectors.shape[1] - 1
        exact = at_least_float32(scores)
        # Tokens stand in the order of the text; what a row may not see opens no gate. Heads come first, [b, h, x, a].
        gates = scope.zero_binary(exact.sigmoid()).permute(0, 3, 1, 2)
        counts = gates.flip(3).cumsum(3).flip(3).clamp_max(last)
        below = counts.detach().floor().clamp_max(last - 1)
        share, lower = counts - below, below.long()
        each = query.transpose(1, 2).to(exact.dtype) @ self.vectors.to(exact.dtype).transpose(1, 2)
        term = each.gather(3, lower) * (1 - share) + each.gather(3, lower + 1) * share
        return term.permute(0, 2, 3, 1).to(query.dtype)

    def value_term(self, weights: Tensor) -> Tensor | None:
        """Nothing."""
        return None


class Cope(PairPosition):
    """score[h](x,y) += q(x) . e[p(x,y)], with p(x,y) the sum of sigmoid(q(x) . k(a)) over the tokens a from y up to x.

    q . k is divided by the square root of the head size and q . e is not, as in the published code. p is real: e[p]
    lies between the vectors of the two whole numbers beside it. Tokens outside the scope count for nothing.
    """

    name = "cope"
    source = "CoPE (Golovneva et al., 2024), Section 4, eq. 3-5, with its published code"
    Options = CopeOptions

    @classmethod
    def check(cls, options: CopeOptions, dims: Dims, scope: str) -> str | None:
        """Counts run from a token up to the row."""
        if scope == "causal":
            return None
        return f'it counts the tokens between two, up to the later one; set model.scope.kind = "causal", not {scope!r}'

    def __init__(self, options: CopeOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers = dims.layers
        self.scale = dims.head_size**0.5
        banks = 1 if options.share_layers else dims.layers
        heads = 1 if options.share_heads else dims.heads
        # The published code starts at zero.
        self.vectors = nn.Parameter(torch.zeros(banks, heads, options.positions, dims.head_size))

    def pairs(self, tokens: Tokens) -> list[CopeTerm]:
        """One term a layer."""
        terms = [CopeTerm(each * self.scale) for each in self.vectors.unbind(0)]
        return terms * self.layers if len(terms) == 1 else terms

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair and head by head: the count, and the vector between its two neighbours."""
        bank = 0 if self.options.share_layers else given["layer"]
        query, key, vectors = given["query"], given["key"], parameters["vectors"][bank]

        def product(one: list[float], other: list[float]) -> float:
            return sum(a * b for a, b in zip(one, other, strict=True))

        def score(x: int, y: int, h: int) -> float:
            opened = [a for a in range(y, len(key)) if scope[x][a]]
            count = sum(1 / (1 + math.exp(-product(query[x][h], key[a][h]))) for a in opened)
            count = min(count, self.options.positions - 1)
            below, own = (
                min(int(count), self.options.positions - 2),
                vectors[0 if self.options.share_heads else h],
            )
            lower, upper = (product(query[x][h], own[place]) for place in (below, below + 1))
            return math.sqrt(dims.head_size) * (lower + (count - below) * (upper - lower))

        tokens = range(len(scope))
        return {"score": [[[score(x, y, h) for h in range(dims.heads)] for y in tokens] for x in tokens]}
