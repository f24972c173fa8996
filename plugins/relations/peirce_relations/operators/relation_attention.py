"""relation_attention: attention between nodes that reads their relations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from peirce.parts import (
    Dims,
    NoOptions,
    PlainMap,
    PlainScope,
    PureOperator,
    Reader,
    Writer,
    plain_linear,
    plain_softmax,
)


class RelationAttention(PureOperator):
    """u[h,s](x) = sum_a K[h](x,a) (v[h,s](a) + r[s](x,a)), K a softmax over a of q[h](x) (k[h](a) + p(x,a)).

    p and r are read from the relations, one for all heads; scores are divided by the square root of the head's size.
    Where no operator writes relations, p and r are Shaw's tables of the given relations, one a layer.
    """

    name = "relation_attention"
    typing = "U <- U x U x U x B x B"
    scope_rule = "reduce"
    source = "Shaw et al. (2018), eq. 3-4; RAT-SQL (Wang et al., 2020), eq. 2, for given relations"
    Options = NoOptions
    example: ClassVar = {}

    def readings(self) -> Mapping[str, Reader]:
        """q: [b, x, h, s]; k and v: [b, a, h, s]; the relations' p and r: [b, x, a, s]."""
        heads = {"h": self.dims.heads, "s": self.dims.head_size}
        shared, scale = {"s": self.dims.head_size}, self.dims.head_size**-0.25
        return {
            "query": Reader(branch="U", shape=heads, scale=scale, dropout=True),
            "key": Reader(branch="U", shape=heads, scale=scale, cached=True),
            "value": Reader(branch="U", shape=heads, cached=True),
            "relation_key": Reader(branch="B", shape=shared, bias=False, scale=scale),
            "relation_value": Reader(branch="B", shape=shared, bias=False),
        }

    def output(self) -> Writer:
        """u: [b, x, h, s], to the properties."""
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, *channels: Any) -> Tensor:
        """[b, x, h, s], twice [b, a, h, s], twice [b, x, a, s] -> [b, x, h, s]."""
        query, key, value, relation_key, relation_value, scope = channels
        scores = (query.transpose(1, 2) @ key.permute(0, 2, 3, 1)).transpose(1, 2)  # [b, x, h, a]
        scores = scores + query @ relation_key.transpose(2, 3)
        weights = scope.softmax(scores.transpose(2, 3)).transpose(2, 3)
        weights = F.dropout(weights, scope.dropout) if scope.dropout else weights
        sums = (weights.transpose(1, 2) @ value.transpose(1, 2)).transpose(1, 2)
        return sums + weights @ relation_value

    def reference(self, *channels: Any) -> list[Any]:
        """Head by head: scores of nodes and of pairs, their softmax over each row's scope, and both sums."""
        query, key, value, relation_key, relation_value, scope = channels
        scores = np.einsum("xhs,ahs->xah", query, key) + np.einsum("xhs,xas->xah", query, relation_key)
        weights = plain_softmax(scores, np.array(scope)[..., None], axis=1)
        sums = np.einsum("xah,ahs->xhs", weights, value) + np.einsum("xah,xas->xhs", weights, relation_value)
        return cast(list[Any], sums.tolist())

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """Queries and keys of nodes and pairs, over the fourth root of the head's size, values, and attention."""
        heads, size = dims.heads, dims.head_size

        def read(name: str) -> Any:
            scale = size**-0.25 if name in ("query", "key", "relation_key") else 1.0
            if name in ("relation_key", "relation_value"):
                return (plain_linear(given["binary"], parameters, name, size, bias=False) * scale).tolist()
            found = plain_linear(given["unary"], parameters, name, heads * size)
            return (found * scale).reshape(-1, heads, size).tolist()

        names = ("query", "key", "value", "relation_key", "relation_value")
        sums = self.reference(*map(read, names), scope)
        rows = [[s for head in row for s in head] for row in sums]
        return {"unary": plain_linear(rows, parameters, "output", dims.unary)}
