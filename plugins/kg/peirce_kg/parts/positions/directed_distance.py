"""directed_distance: a learned number for each head and signed distance in the query graph, inside attention."""

from __future__ import annotations

import torch
from attrs import field, frozen, validators
from torch import nn

from peirce.kernels import PairBias
from peirce.parts import Dims, PairPosition, PlainMap, PlainScope, TensorSpec, Tokens, new_table
from peirce_kg.parts.positions.query_graph import APART, FARTHEST, GRAPH_DISTANCES, GRAPH_NODES, of_pairs


@frozen(kw_only=True)
class DirectedDistanceOptions:
    """Which distances are told apart and what shares their numbers.

    Args:
        clip: distances beyond it, either way, count as it; the published code has 11.
        share_layers: whether the layers share their numbers.
    """

    clip: int = field(default=11, validator=[validators.ge(1), validators.le(FARTHEST)])
    share_layers: bool = False


class DirectedDistance(PairPosition):
    """score[h](x,y) += table[d(x,y), h], for the signed distance d of the tokens' nodes in the query graph.

    |d| is the length of the shortest path whichever way the edges point, and d > 0 where y lies nearer the answer.
    Nodes that no path joins, and tokens outside the graph, share one more number.
    """

    name = "directed_distance"
    source = (
        "Query2Triple (Xu et al., 2023), directed distance encoding, as its published code; TEGA, Section 5.3"
    )
    Options = DirectedDistanceOptions

    def __init__(self, options: DirectedDistanceOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers = dims.layers
        self.clip = options.clip
        banks = 1 if options.share_layers else dims.layers
        self.tables = nn.ModuleList(new_table(2 * options.clip + 2, dims.heads) for _ in range(banks))

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Each token's node, and its distance to every node."""
        return (GRAPH_NODES, GRAPH_DISTANCES)

    def pairs(self, tokens: Tokens) -> list[PairBias]:
        """One bias a layer."""
        codes = of_pairs(tokens, "graph_distances")
        near = (codes - FARTHEST).clamp(-self.clip, self.clip) + self.clip
        ids = torch.where(codes == APART, 2 * self.clip + 1, near)
        biases = [
            PairBias(ids=ids, score=table.get_parameter("weight").unsqueeze(0)) for table in self.tables
        ]
        return biases * self.layers if len(biases) == 1 else biases

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: the number of the nodes' distance."""
        clip, nodes, codes = self.options.clip, given["graph_nodes"], given["graph_distances"]
        table = parameters[f"tables.{0 if self.options.share_layers else given['layer']}.weight"]

        def row(x: int, y: int) -> int:
            code = codes[x][nodes[y]]
            return 2 * clip + 1 if code == APART else clip + max(-clip, min(clip, code - FARTHEST))

        tokens = range(len(scope))
        return {"score": [[table[row(x, y)] for y in tokens] for x in tokens]}
