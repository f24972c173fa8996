"""What positions read of a query graph: how the node of each token stands to the node of each other one.

A graph's nodes are numbered; each token has the number of its node, and one entry for every node that says how its own
stands to it. So nothing is larger than tokens times `NODES`, and tokens that follow others bring their own rows.
`peirce_kg.encoding` writes these numbers, also where there is no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from peirce.parts import TensorSpec

if TYPE_CHECKING:
    from torch import Tensor

    from peirce.parts import Tokens

NODES = 32
"""How many nodes a query graph may have; 0 is what no token of the graph has."""
OUTSIDE = 0
"""The node of a token that stands for none, such as a parenthesis."""
FARTHEST = 15
"""Distances are told apart up to this one, either way."""
APART = 2 * FARTHEST + 1
"""The code of two nodes that no path joins; a distance d has the code d + `FARTHEST`."""
DISTANCES = APART + 1
"""The codes of distances are below this."""
ROLES = ("same", "head", "tail", "negation", "negated", "answer", "atom", "negative_atom")
"""What one node is to another; a set of roles is the sum of 2**place.

`same`: the same node. `head`: the head of an atom, to its relation. `tail`: a relation, to the tail of its positive
atom. `negation`: a relation, to its negation. `negated`: a negation, to the tail of its atom. `answer`: the union, to
the free variable. `atom` and `negative_atom`: the head of an atom, to its tail.
"""
ROLE_SETS = 2 ** len(ROLES)
"""The codes of sets of roles are below this."""


def _spec(name: str, meaning: str, high: int, *dims: int) -> TensorSpec:
    return TensorSpec(name=name, dtype="int64", dims=("batch", "length", *dims), meaning=meaning, high=high)


GRAPH_NODES = _spec(
    "graph_nodes", "The node of the query graph that each token stands for; 0 for none.", NODES
)
GRAPH_DISTANCES = _spec(
    "graph_distances",
    "The code of the signed distance from each token's node to every node.",
    DISTANCES,
    NODES,
)
GRAPH_ROLES = _spec(
    "graph_roles", "The set of roles that each token's node has to every node, as a sum of powers of 2.",
    ROLE_SETS, NODES,
)  # fmt: skip
GRAPH_INPUTS = tuple(spec.name for spec in (GRAPH_NODES, GRAPH_DISTANCES, GRAPH_ROLES))
"""The names of the inputs."""


def of_pairs(
    tokens: Tokens, name: Literal["graph_distances", "graph_roles"], *, converse: bool = False
) -> Tensor:
    """What the node of x is to the node of y, or, as the converse, that of y to that of x: int64 [b, x, y]."""
    entries, nodes = tokens.inputs[name], tokens.inputs["graph_nodes"]
    entries, nodes = (entries, tokens.rows(nodes)) if converse else (tokens.rows(entries), nodes)
    found = entries.gather(2, nodes.unsqueeze(1).expand(-1, entries.shape[1], -1))
    return found.transpose(1, 2) if converse else found
