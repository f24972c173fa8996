"""brackets: keys and values for each pair of signs and their distance in the tree of brackets, inside attention."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.kernels import PairBias
from peirce.parts import Dims, PairPosition, PlainMap, PlainScope, Tokens, layer_biases, new_table

DEEPEST = 16
"""Brackets nested deeper count as nested so deep."""


@frozen(kw_only=True)
class BracketsOptions:
    """Which tokens are brackets and signs, and what is told apart. The ids are the vocabulary's of `entailment`.

    Args:
        opens: the id of the opening bracket.
        closes: the id of the closing bracket.
        signs: ids below it are kinds of their own; all others, the variables, are one kind.
        max_distance: longer distances count as it.
        share_heads: whether the heads share their vectors.
    """

    opens: int = field(default=5, validator=validators.ge(0))
    closes: int = field(default=6, validator=validators.ge(0))
    signs: int = field(default=11, validator=validators.ge(1))
    max_distance: int = field(default=8, validator=validators.ge(1))
    share_heads: bool = True


class Brackets(PairPosition):
    """score(x,y) += q(x) . K[t_x, t_y, d(x,y)] and value(x,y) += V[t_x, t_y, d(x,y)].

    t_x is the kind of token x. Brackets are a tree: a pair of brackets is a node, and what stands in it hangs from it.
    d(x,y) is the number of nodes on the way from x's node to y's, less one. LogiRPE has the distance in the text
    there. The layers share the tables. The parse is computed from the token ids, so the model needs no other input.
    """

    name = "brackets"
    source = "after LogiRPE (TEGA, Zheng et al., 2025, eq. 6-8), with distances in the parse"
    Options = BracketsOptions

    def __init__(self, options: BracketsOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.options, self.layers = options, dims.layers
        self.shape = (1 if options.share_heads else dims.heads, dims.head_size)
        entries = (options.signs + 1) ** 2 * (options.max_distance + 1)
        self.keys, self.values = (new_table(entries, self.shape[0] * self.shape[1]) for _ in range(2))

    def example_inputs(self, drawn: Mapping[str, Tensor], generator: torch.Generator) -> Mapping[str, Tensor]:
        """Texts that are brackets for the most part, so that some tokens lie far from others."""
        words, options = drawn["input_ids"], self.options
        odds = torch.rand(words.shape, generator=generator)
        closed = torch.where(odds < 0.9, options.closes, words)
        return {"input_ids": torch.where(odds < 0.6, options.opens, closed)}

    def pairs(self, tokens: Tokens) -> list[PairBias]:
        """One bias for all layers."""
        kinds = tokens.inputs["input_ids"].clamp_max(self.options.signs)
        ids = kinds.unsqueeze(1) * (self.options.max_distance + 1) + self.distances(tokens)
        keys, values = ([self._vectors(table)] for table in (self.keys, self.values))
        return layer_biases(self.layers, ids, tokens.rows(kinds), keys, values)

    def distances(self, tokens: Tokens) -> Tensor:
        """d(x,y), int64 [b, x, y] in [0, max_distance]."""
        opens, closes = (self._are(token, tokens) for token in (self.options.opens, self.options.closes))
        open_here = opens.cumsum(1) - closes.cumsum(1) + closes
        depth = open_here.clamp(0, DEEPEST)
        levels = torch.arange(1, DEEPEST + 1, device=depth.device).unsqueeze(1)
        # x and y hang from one node of a level if both are as deep, so is all between them, and none begins there.
        above = depth.unsqueeze(1) < levels
        begins = (opens == 1).unsqueeze(1) & (open_here.unsqueeze(1) == levels)
        node = (above | begins).long().cumsum(2)
        rows, columns = tokens.rows(node.masked_fill(above, -1), 2), node.masked_fill(above, -2)
        common = (rows.unsqueeze(3) == columns.unsqueeze(2)).long().sum(1)
        far = tokens.rows(depth).unsqueeze(2) + depth.unsqueeze(1) - 2 * common
        return far.clamp_max(self.options.max_distance)

    def _are(self, token: int, tokens: Tokens) -> Tensor:
        """int64 [b, x], 1 where a real token has this id."""
        found = tokens.inputs["input_ids"] == token
        return (found if tokens.real is None else found & tokens.real).long()

    def _vectors(self, table: nn.Module) -> Tensor:
        """[t, t * (max_distance + 1), g, s]: the kind of x, then the kind of y and the distance."""
        kinds = self.options.signs + 1
        return table.get_parameter("weight").view(kinds, -1, *self.shape)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: the kinds of both, and the way from node to node of the tree."""
        options, ids, heads, size = self.options, given["input_ids"], range(dims.heads), dims.head_size
        way, missing, nodes = [-1], 0, []
        for place, token in enumerate(ids):
            if token == options.opens and missing:
                missing -= 1  # it makes up for a bracket that closed nothing
            elif token == options.opens:
                way.append(place)
            nodes.append(way[: DEEPEST + 1])  # deeper nodes are not told apart
            if token == options.closes and len(way) > 1:
                way.pop()
            elif token == options.closes:
                missing += 1

        def far(x: int, y: int) -> int:
            one, other = nodes[x], nodes[y]
            common = sum(a == b for a, b in zip(one, other, strict=False))
            return min(len(one) + len(other) - 2 * common, options.max_distance)

        def vector(table: str, x: int, y: int, h: int) -> list[float]:
            kinds, distances = options.signs + 1, options.max_distance + 1
            first, second = (min(ids[each], options.signs) for each in (x, y))
            row = parameters[f"{table}.weight"][(first * kinds + second) * distances + far(x, y)]
            own = 0 if options.share_heads else h
            return list(row[own * size : (own + 1) * size])

        def score(x: int, y: int, h: int) -> float:
            return sum(q * k for q, k in zip(given["query"][x][h], vector("keys", x, y, h), strict=True))

        tokens = range(len(ids))
        return {
            "score": [[[score(x, y, h) for h in heads] for y in tokens] for x in tokens],
            "value": [[[vector("values", x, y, h) for h in heads] for y in tokens] for x in tokens],
        }
