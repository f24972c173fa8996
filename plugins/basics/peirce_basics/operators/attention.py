"""attention: a token sums the values of those that it may attend to, by a softmax of queries times keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import numpy as np
from attrs import field, frozen, validators
from torch import Tensor

from peirce.kernels import channels_first
from peirce.parts import (
    AttentionOperator,
    Dims,
    PlainMap,
    PlainScope,
    Reader,
    Writer,
    plain_linear,
    plain_softmax,
)


@frozen(kw_only=True)
class AttentionOptions:
    """What the heads share.

    Args:
        kv_heads: heads of keys and values; 0 for as many as `heads`. With fewer, each serves a group of queries that
            stand side by side; 1 is multi-query attention.
        bias: whether the four projections have biases.
    """

    kv_heads: int = field(default=0, validator=validators.ge(0))
    bias: bool = True


def why_not_divisible(kv_heads: int, heads: int) -> str | None:
    """Why `kv_heads` heads of keys and values cannot serve `heads` heads; None if they can."""
    if not kv_heads or heads % kv_heads == 0:
        return None
    undivided = f"kv_heads = {kv_heads} does not divide the {heads} heads"
    return f"{undivided}; choose a divisor, or 0 for as many as there are heads"


class Attention(AttentionOperator):
    """u[h,s](x) = sum_a K[h](x,a) v[g,s](a), K a softmax over a of sum_w q[h,w](x) k[g,w](a) / sqrt(head_size).

    g is h // (heads / kv_heads). No relation is kept, so it works in networks of one branch and of two.
    """

    name = "attention"
    typing = "U <- U x U x U"
    source = "Vaswani et al. (2017), eq. 1; grouped heads: Shazeer (2019) and Ainslie et al. (2023)"
    Options = AttentionOptions
    example: ClassVar = {"kv_heads": 1}

    @classmethod
    def check(cls, options: AttentionOptions, dims: Dims, scope: str) -> str | None:
        """Groups of queries have one size."""
        return why_not_divisible(options.kv_heads, dims.heads)

    def readings(self) -> Mapping[str, Reader]:
        """q: [b, x, h, s]; k and v: [b, a, g, s]; all from the properties."""
        size, scale = self.dims.head_size, self.dims.head_size**-0.25
        query_shape = {"h": self.dims.heads, "s": size}
        shared = {"g": self.options.kv_heads or self.dims.heads, "s": size}
        bias = self.options.bias
        return {
            "query": Reader(branch="U", shape=query_shape, bias=bias, scale=scale, dropout=True),
            "key": Reader(branch="U", shape=shared, bias=bias, scale=scale, cached=True),
            "value": Reader(branch="U", shape=shared, bias=bias, cached=True),
        }

    def output(self) -> Writer:
        """u: [b, x, h, s], to the properties."""
        shape = {"h": self.dims.heads, "s": self.dims.head_size}
        return Writer(branch="U", shape=shape, bias=self.options.bias)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """[b, x, h, s], [b, a, g, s] -> [b, x, a, h]; the queries of a group are rows of one product."""
        groups, rows = (key.shape[2], query.shape[2] // key.shape[2]), query.shape[1]
        grouped = query.unflatten(2, groups).permute(0, 2, 3, 1, 4).flatten(2, 3)
        products = grouped @ key.permute(0, 2, 3, 1)
        return products.unflatten(2, (groups[1], rows)).flatten(1, 2).permute(0, 2, 3, 1)

    def sums(self, weights: Tensor, value: Tensor) -> Tensor:
        """[b, x, a, h], [b, a, g, s] -> [b, x, h, s]."""
        groups, rows = (value.shape[2], weights.shape[3] // value.shape[2]), weights.shape[1]
        grouped = channels_first(weights).unflatten(1, groups).flatten(2, 3)
        return (grouped @ value.transpose(1, 2)).unflatten(2, (groups[1], rows)).flatten(1, 2).transpose(1, 2)

    def reference(
        self, query: list[Any], key: list[Any], value: list[Any], scope: list[list[bool]]
    ) -> list[Any]:
        """Head by head: products, their softmax over each row's scope, and the sum; several heads share keys."""
        group = [h * len(key[0]) // len(query[0]) for h in range(len(query[0]))]
        keys, values = np.array(key)[:, group], np.array(value)[:, group]
        weights = plain_softmax(np.einsum("xhs,ahs->xah", query, keys), np.array(scope)[..., None], axis=1)
        return cast(list[Any], np.einsum("xah,ahs->xhs", weights, values).tolist())

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """Queries and keys, each over the fourth root of the head's size, values, and attention."""
        bias, groups = self.options.bias, self.options.kv_heads or dims.heads

        def read(name: str, heads: int, scale: float) -> Any:
            found = plain_linear(given["unary"], parameters, name, heads * dims.head_size, bias=bias)
            return (found * scale).reshape(-1, heads, dims.head_size).tolist()

        root = dims.head_size**-0.25
        channels = read("query", dims.heads, root), read("key", groups, root), read("value", groups, 1.0)
        rows = [[s for head in row for s in head] for row in self.reference(*channels, scope)]
        return {"unary": plain_linear(rows, parameters, "output", dims.unary, bias=bias)}
