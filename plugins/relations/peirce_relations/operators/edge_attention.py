"""edge_attention: what relates x to y is attended to through every third node, as x to a and a to y."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from attrs import frozen
from torch import Tensor

from peirce.algebra import Scope, at_least_float32
from peirce.parts import Dims, PlainMap, PlainScope, PureOperator, Reader, Writer, plain_linear, plain_softmax


@frozen(kw_only=True)
class EdgeAttentionOptions:
    """The published form, its flat form, and its two lesions.

    Args:
        flat: whether a pair attends to the pairs of its row and of its column, each by itself, instead of to triangles.
        lesion_scores: whether scores are of (x, a) and (x, y), so that they do not see (a, y).
        lesion_values: whether values are those of (x, a) alone.
        bias: whether the maps have biases; the published ones have none.
    """

    flat: bool = False
    lesion_scores: bool = False
    lesion_values: bool = False
    bias: bool = False


class EdgeAttention(PureOperator):
    """u[h,s](x,y) = sum_a K[h](x,a,y) v[h,s](x,a) w[h,s](a,y), K a softmax over a of sum_t q[h,t](x,a) k[h,t](a,y).

    Scores are divided by the square root of the head's size. The flat form sums v(x,z) over z and v(z,y) over z, by one
    softmax of the scores q(x,y) k(x,z) and q(x,y) k(z,y). Time and memory grow with the cube of the number of nodes.
    """

    name = "edge_attention"
    typing = "B <- B x B x B x B"
    scope_rule = "reduce"
    source = "Edge Transformer (Bergen et al., 2021), eq. 3-5; the flat form and the lesions: Section 5"
    Options = EdgeAttentionOptions
    example: ClassVar = {}

    def __init__(self, options: EdgeAttentionOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        if options.flat or options.lesion_values:
            self.typing = "B <- B x B x B"  # type: ignore[misc]  # these forms read a pair three times

    @classmethod
    def check(cls, options: EdgeAttentionOptions, dims: Dims, scope: str) -> str | None:
        """The flat form has no lesions, and needs every row."""
        if options.flat and (options.lesion_scores or options.lesion_values):
            return "the flat form has no triangles to lesion; leave flat out, or the lesions"
        if options.flat and scope in ("causal", "prefix"):
            return f"the flat form attends to rows of later tokens, which the scope {scope!r} hides; leave flat out"
        return None

    def readings(self) -> Mapping[str, Reader]:
        """The left query and value of (x, a), [b, x, a, h, s]; the right key and value of (a, y), [b, a, y, h, s].

        Flat: query, key and value of each pair, all of them whole.
        """
        bias, flat = self.options.bias, self.options.flat
        scale = self.dims.head_size**-0.25

        def reader(*, scaled: bool, attended: bool, dropout: bool = False) -> Reader:
            shape = {"h": self.dims.heads, "s": self.dims.head_size}
            factor = scale if scaled else 1.0
            return Reader(branch="B", shape=shape, bias=bias, scale=factor, cached=attended, dropout=dropout)

        query = reader(scaled=True, attended=flat, dropout=True)
        key = reader(scaled=True, attended=flat or not self.options.lesion_scores)
        if flat:
            return {"query": query, "key": key, "value": reader(scaled=False, attended=True)}
        both = {"query": query, "key": key, "value": reader(scaled=False, attended=False)}
        return (
            both
            if self.options.lesion_values
            else both | {"right_value": reader(scaled=False, attended=True)}
        )

    def output(self) -> Writer:
        """u: [b, x, y, h, s], to the relations."""
        shape = {"h": self.dims.heads, "s": self.dims.head_size}
        return Writer(branch="B", shape=shape, bias=self.options.bias)

    def infer(self, *channels: Any) -> Tensor:
        """[b, x, a, h, s] and [b, a, y, h, s] -> [b, x, y, h, s]."""
        query, key, value, *right, scope = channels
        if self.options.flat:
            return _flat(query, key, value, scope)
        if self.options.lesion_scores:
            # For each x: queries of a times keys of y.
            scores = (query.transpose(2, 3) @ key.permute(0, 1, 3, 4, 2)).permute(0, 1, 3, 4, 2)
        else:
            # For each a: queries of x times keys of y.
            scores = (query.permute(0, 2, 3, 1, 4) @ key.permute(0, 1, 3, 4, 2)).permute(0, 3, 1, 4, 2)
        weights = _drop(scope.softmax(scores), scope)
        if not right:
            return (weights.permute(0, 1, 4, 3, 2) @ value.transpose(2, 3)).transpose(2, 3)
        weighed = weights.unsqueeze(5) * value.unsqueeze(3)
        return (weighed * right[0].unsqueeze(1)).sum(2)

    def reference(self, *channels: Any) -> list[Any]:
        """Pair by pair and head by head: scores, their softmax over what is in scope, and the sum."""
        query, key, value, *right, scope = channels
        options, tokens = self.options, range(len(scope))
        heads, sizes = range(self.dims.heads), range(self.dims.head_size)

        def pair(x: int, y: int, h: int) -> list[float]:
            if options.flat:
                near = [(x, z) for z in tokens if scope[x][z]] + [
                    (z, y) for z in tokens if scope[x][z] and scope[z][y]
                ]
                terms = [(_dot(query[x][y][h], key[i][j][h]), value[i][j][h]) for i, j in near]
                return _weigh(terms, sizes)
            keys = [key[x][y] if options.lesion_scores else key[a][y] for a in tokens]
            terms = []
            for a in (a for a in tokens if scope[x][a]):
                product = value[x][a][h]
                if right:
                    product = [v * w for v, w in zip(product, right[0][a][y][h], strict=True)]
                terms.append((_dot(query[x][a][h], keys[a][h]), product))
            return _weigh(terms, sizes)

        return [[[pair(x, y, h) for h in heads] for y in tokens] for x in tokens]

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """Queries and keys, each over the fourth root of the head's size, values, and the sums over the third node."""
        options, count = self.options, len(scope)
        names = ["query", "key", "value"]
        if not options.flat and not options.lesion_values:
            names.append("right_value")
        channels = []
        for name in names:
            width = dims.heads * dims.head_size
            read = plain_linear(given["binary"], parameters, name, width, bias=options.bias)
            read *= np.asarray(scope)[..., None] * (
                dims.head_size**-0.25 if name in ("query", "key") else 1.0
            )
            channels.append(read.reshape(count, count, dims.heads, dims.head_size).tolist())
        sums = np.asarray(self.reference(*channels, scope)).reshape(count, count, -1)
        return {"binary": plain_linear(sums, parameters, "output", dims.binary, bias=options.bias)}


def _flat(query: Tensor, key: Tensor, value: Tensor, scope: Scope) -> Tensor:
    """Attention of each pair to its row and its column, [b, x, y, h, s] each -> [b, x, y, h, s]."""
    turned = query.transpose(1, 2)
    rows = query.transpose(2, 3) @ key.permute(0, 1, 3, 4, 2)  # [b, x, h, y, z]
    columns = (turned.transpose(2, 3) @ key.permute(0, 2, 3, 4, 1)).transpose(
        1, 3
    )  # [b, x, h, y, z] for k(z, y)
    scores = at_least_float32(torch.cat([rows, columns], 4))
    if scope.pairs is not None:
        seen = scope.pairs[:, :, None, None].expand(-1, -1, -1, scores.shape[3], -1)  # x attends to z
        heard = seen & scope.pairs.transpose(1, 2)[:, None, None]  # and z to y
        outside = ~torch.cat([seen, heard], 4)
        weights = (
            scores.masked_fill(outside, torch.finfo(scores.dtype).min).softmax(4).masked_fill(outside, 0.0)
        )
    else:
        weights = scores.softmax(4)
    left, right = _drop(weights.to(value.dtype), scope).tensor_split(2, 4)
    left_part = left @ value.transpose(2, 3)  # [b, x, h, y, s]
    others = (right.transpose(1, 3) @ value.permute(0, 2, 3, 1, 4)).transpose(1, 3)
    return (left_part + others).transpose(2, 3)


def _drop(weights: Tensor, scope: Scope) -> Tensor:
    return F.dropout(weights, scope.dropout) if scope.dropout else weights


def _dot(one: list[float], other: list[float]) -> float:
    return sum(i * j for i, j in zip(one, other, strict=True))


def _weigh(terms: list[tuple[float, list[float]]], sizes: range) -> list[float]:
    """The sum of values by the softmax of their scores."""
    weights = plain_softmax([score for score, _ in terms])
    return [sum(w * v[s] for w, (_, v) in zip(weights, terms, strict=True)) for s in sizes]
