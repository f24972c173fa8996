"""What positions read of a query graph: how the node of each token stands to the node of each other one."""

from __future__ import annotations

from typing import Literal

from peirce.parts import TensorSpec, Tokens
from torch import Tensor

from peirce_kg.graph_codes import DISTANCES, NODES, ROLE_SETS

GRAPH_NODES = TensorSpec(
    name="graph_nodes",
    dtype="int64",
    dims=("batch", "length"),
    meaning="The node of the query graph that each token stands for; 0 for none.",
    high=NODES,
)
GRAPH_DISTANCES = TensorSpec(
    name="graph_distances",
    dtype="int64",
    dims=("batch", "length", NODES),
    meaning="The code of the signed distance from each token's node to every node.",
    high=DISTANCES,
)
GRAPH_ROLES = TensorSpec(
    name="graph_roles",
    dtype="int64",
    dims=("batch", "length", NODES),
    meaning="The set of roles that each token's node has to every node, as a sum of powers of 2.",
    high=ROLE_SETS,
)


def of_pairs(tokens: Tokens, name: Literal["graph_distances", "graph_roles"]) -> Tensor:
    """What the node of x is to the node of y, int64 [b, x, y]."""
    entries, nodes = tokens.rows(tokens.inputs[name]), tokens.inputs["graph_nodes"]
    return entries.gather(2, nodes.unsqueeze(1).expand(-1, entries.shape[1], -1))


def of_converse_pairs(tokens: Tokens, name: Literal["graph_distances", "graph_roles"]) -> Tensor:
    """What the node of y is to the node of x, int64 [b, x, y]."""
    entries, nodes = tokens.inputs[name], tokens.rows(tokens.inputs["graph_nodes"])
    return entries.gather(2, nodes.unsqueeze(1).expand(-1, entries.shape[1], -1)).transpose(1, 2)
