"""relational_attention: a token sums the symbols of others and how it relates to them, not what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor

from peirce.algebra import Scope, at_least_float32
from peirce.kernels import PairBias, channels_first, pair_values
from peirce.parts import (
    AttentionOperator,
    Dims,
    PlainMap,
    PlainScope,
    Reader,
    SharedReader,
    Weight,
    Writer,
    plain_linear,
    plain_softmax,
)

SYMBOLS = ("retrieved", "distance", "place")


@frozen(kw_only=True)
class RelationalAttentionOptions:
    """What is summed of each token.

    Args:
        cross: whether it is relational cross-attention, which sums symbols alone, as the Abstractor's.
        relations: how many relations are computed and summed beside the symbols; 0 for as many as `heads`.
        symmetric: whether R(x,a) = R(a,x), by one map for both sides.
        symbols: `retrieved` by a softmax of the token's scores of each, symbolic attention; that of its clipped
            `distance`; or that of its `place` in the text.
        count: how many symbols are retrieved; the distance that longer ones count as, either way; or the places, the
            last of which stands for those behind.
        symbol_heads: how many symbols a token retrieves, each by scores of its own.
    """

    cross: bool = False
    relations: int = field(default=0, validator=validators.ge(0))
    symmetric: bool = False
    symbols: Literal["retrieved", "distance", "place"] = field(
        default="retrieved", validator=validators.in_(SYMBOLS)
    )
    count: int = field(default=16, validator=validators.ge(1))
    symbol_heads: int = field(default=1, validator=validators.ge(1))


class RelationalAttention(AttentionOperator):
    """u[h,s](x) = sum_a K[h](x,a) (S[h,s](x,a) + sum_r W[h,r,s] q'[r](x) k'[r](a)), K the softmax of attention.

    S is the symbol of a: sum_gn p[g,n](a) L[g,n,h,s] with p[g] a softmax over symbols n, or L[d,h,s] of the distance d
    from x to a or of the place d of a. Beside `attention` in one layer it is dual attention. The products q' k' of
    relations are divided by the square root of their size, heads * head_size / relations.
    """

    name = "relational_attention"
    typing = "U <- U x U x U x U x U"
    source = "Altabaa and Lafferty (2024), arXiv 2405.16727; cross: Altabaa et al. (2024), arXiv 2304.00195"
    Options = RelationalAttentionOptions
    example: ClassVar = {"relations": 1, "count": 3}

    def __init__(self, options: RelationalAttentionOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.relations = 0 if options.cross else options.relations or dims.heads
        readings = self.readings()
        self._summed = (*readings, *self.weights())[2:]
        self.typing = f"U <- {' x '.join('U' for _ in readings)}"  # type: ignore[misc]  # options leave readings out

    @classmethod
    def check(cls, options: RelationalAttentionOptions, dims: Dims, scope: str) -> str | None:
        """The relations share what the heads have of channels."""
        width, count = dims.heads * dims.head_size, options.relations
        if options.cross or not count or width % count == 0:
            return None
        return f"relations = {count} does not divide the {width} channels of all heads; choose a divisor of {width}"

    def readings(self) -> Mapping[str, Reader]:
        """q and k: [b, x, h, s] and [b, a, h, s]; q' and k': [b, x, r, w] and [b, a, r, w]; scores: [b, a, g, n]."""
        dims, options, count = self.dims, self.options, self.relations
        heads, scale = {"h": dims.heads, "s": dims.head_size}, dims.head_size**-0.25
        found = {
            "query": Reader(branch="U", shape=heads, scale=scale, dropout=True),
            "key": Reader(branch="U", shape=heads, scale=scale, cached=True),
        }
        if count:
            shape = {"r": count, "w": dims.heads * dims.head_size // count}
            told: dict[str, Any] = {
                "branch": "U",
                "shape": shape,
                "bias": False,
                "scale": shape["w"] ** -0.25,
            }
            found["relation_query"] = Reader(**told)
            found["relation_key"] = (
                SharedReader(**told, cached=True, shares="relation_query")
                if options.symmetric
                else Reader(**told, cached=True)
            )
        if options.symbols == "retrieved":
            shape = {"g": options.symbol_heads, "n": options.count}
            found["symbol"] = Reader(branch="U", shape=shape, cached=True)
        return found

    def weights(self) -> Mapping[str, Weight]:
        """W: [h, r, s]; L: [g, n, h, s] or [d, h, s]."""
        options, count, heads = self.options, self.relations, {"h": self.dims.heads, "s": self.dims.head_size}
        entries = {
            "retrieved": {"g": options.symbol_heads, "n": options.count},
            "distance": {"d": 2 * options.count + 1},
            "place": {"d": options.count},
        }[options.symbols]
        found = {"symbols": Weight(shape={**entries, **heads}, initial=0.0, spread=1.0)}
        if count:
            shape = {"h": heads["h"], "r": count, "s": heads["s"]}
            found["relations"] = Weight(shape=shape, initial=0.0, spread=count**-0.5)
        return found

    def output(self) -> Writer:
        """u: [b, x, h, s], to the properties."""
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """[b, x, h, s], [b, a, h, s] -> [b, x, a, h]."""
        return (query.transpose(1, 2) @ key.permute(0, 2, 3, 1)).permute(0, 2, 3, 1)

    def sums(self, weights: Tensor, *others: Any) -> Tensor:
        """[b, x, a, h], what is read of relations and symbols, the weights, and the scope -> [b, x, h, s]."""
        *values, scope = others
        given = dict(zip(self._summed, values, strict=True))
        total = self._symbols(weights, given, scope)
        if not self.relations:
            return total
        # Relations are summed by head before they are mapped, so that no pair has a vector of the head's size.
        products = given["relation_query"].transpose(1, 2) @ given["relation_key"].permute(
            0, 2, 3, 1
        )  # [b, r, x, a]
        summed = weights.transpose(2, 3) @ products.permute(0, 2, 3, 1)  # [b, x, h, r]
        return total + (summed.transpose(1, 2) @ given["relations"]).transpose(1, 2)

    def _symbols(self, weights: Tensor, given: Mapping[str, Tensor], scope: Scope) -> Tensor:
        """The sums of symbols, [b, x, a, h] -> [b, x, h, s]."""
        table, count = given["symbols"], self.options.count
        if self.options.symbols == "distance":
            distances = scope.columns.unsqueeze(1) - scope.rows.unsqueeze(2)
            bias = PairBias(ids=distances.clamp(-count, count) + count, value=table.unsqueeze(0))
            return pair_values(weights, bias)
        if self.options.symbols == "place":
            symbols = F.embedding(scope.columns.clamp(max=count - 1), table.flatten(1))
        else:
            shares = at_least_float32(given["symbol"]).softmax(3).to(table.dtype)
            symbols = shares.flatten(2) @ table.flatten(2).flatten(0, 1)
        symbols = symbols.unflatten(2, tuple(table.shape[-2:]))  # [b or 1, a, h, s]
        return (channels_first(weights) @ symbols.transpose(1, 2)).transpose(1, 2)

    def reference(self, *channels: Any) -> list[Any]:
        """Symbols of each pair and head, relations of each pair, and their sums by the softmax over the row's scope."""
        query, key, *others, scope = channels
        given = {name: np.array(value) for name, value in zip(self._summed, others, strict=True)}
        count, table = self.options.count, given["symbols"]
        seen = np.array(scope)[..., None]
        weights = plain_softmax(np.einsum("xhs,ahs->xah", query, key), seen, 1)
        if self.options.symbols == "retrieved":
            own = np.einsum("agn,gnhs->ahs", plain_softmax(given["symbol"]), table)
            symbols = [[own[a] for a in range(len(own))] for _ in scope]
        else:
            of_place = self.options.symbols == "place"
            symbols = [
                [
                    table[min(place, count - 1) if of_place else max(-count, min(count, place - row)) + count]
                    for place in scope.columns
                ]
                for row in scope.rows
            ]
        values = np.array(symbols)
        if self.relations:
            products = np.einsum("xrw,arw->xar", given["relation_query"], given["relation_key"])
            values = values + np.einsum("xar,hrs->xahs", products, given["relations"])
        return np.einsum("xah,xahs->xhs", weights, values).tolist()

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """Queries and keys over the fourth roots of their sizes, scores of symbols, the weights, and the sums."""
        heads, channels = [dims.heads, dims.head_size], []
        shapes = {"query": heads, "key": heads}
        if self.relations:
            relations = [self.relations, dims.heads * dims.head_size // self.relations]
            shapes |= {"relation_query": relations, "relation_key": relations}
        if self.options.symbols == "retrieved":
            shapes["symbol"] = [self.options.symbol_heads, self.options.count]
        for name, (count, size) in shapes.items():
            own = "relation_query" if self.options.symmetric and name == "relation_key" else name
            bias, scale = not name.startswith("relation"), 1.0 if name == "symbol" else size**-0.25
            read = plain_linear(given["unary"], parameters, own, count * size, bias=bias) * scale
            channels.append(read.reshape(-1, count, size).tolist())
        learned = [parameters[name] for name in self.weights()]
        sums = np.array(self.reference(*channels, *learned, scope)).reshape(len(scope), -1)
        return {"unary": plain_linear(sums, parameters, "output", dims.unary)}
