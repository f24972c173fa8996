"""adjacency: tokens attend to their neighbours in the query graph alone."""

from __future__ import annotations

from typing import Literal

import torch
from attrs import field, frozen, validators
from torch import Tensor

from peirce.parts import Dims, PlainMap, PlainScope, ScopePosition, TensorSpec, Tokens
from peirce_kg.parts.positions import query_graph as graph
from peirce_kg.parts.positions.query_graph import APART, FARTHEST, OUTSIDE, of_pairs


@frozen(kw_only=True)
class AdjacencyOptions:
    """How far a token attends, and what becomes of tokens outside the graph.

    Args:
        hops: the longest path to a node that is attended to.
        outside: tokens that stand for no node, such as parentheses. With `looks` they attend to every token, and no
            node to them; with `both` also every node to them, which joins nodes that are far apart in two layers.
    """

    hops: int = field(default=1, validator=[validators.ge(1), validators.le(FARTHEST)])
    outside: Literal["looks", "both"] = "looks"


class Adjacency(ScopePosition):
    """x may attend to y if their nodes are the same or joined by an edge of the query graph, whichever way it points.

    A token outside the graph attends to every token: the first token of a query, which may stand for it, can be one.
    """

    name = "adjacency"
    source = "kgTransformer (Liu et al., 2022), attention masked by the query graph; TEGA, Section 5.3"
    Options = AdjacencyOptions

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Each token's node, and its distance to every node."""
        return (graph.GRAPH_NODES, graph.GRAPH_DISTANCES)

    def scope(self, tokens: Tokens) -> Tensor:
        """bool [b, x, y]; every token attends to itself."""
        codes, outside = of_pairs(tokens, "graph_distances"), tokens.inputs["graph_nodes"] == OUTSIDE
        near = ((codes - FARTHEST).abs() <= self.options.hops) & (codes != APART)
        place = torch.arange(tokens.length, device=codes.device)
        itself = tokens.rows(place, 0).unsqueeze(1) == place
        allowed = near | itself | tokens.rows(outside).unsqueeze(2)
        return allowed | outside.unsqueeze(1) if self.options.outside == "both" else allowed

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: whether a path is short enough, or one of the tokens is outside."""
        nodes, codes, tokens = given["graph_nodes"], given["graph_distances"], range(len(scope))

        def sees(x: int, y: int) -> bool:
            code, both = codes[x][nodes[y]], self.options.outside == "both"
            near = code != APART and abs(code - FARTHEST) <= self.options.hops
            return near or x == y or nodes[x] == OUTSIDE or (both and nodes[y] == OUTSIDE)

        return {"scope": [[sees(x, y) for y in tokens] for x in tokens]}
