"""atoms: the query graph's relations as FOLNet's initial binary atoms."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from attrs import frozen
from torch import Tensor

from peirce.algebra import at_least_float32
from peirce.parts import BinaryPosition, Dims, PlainMap, PlainScope, TensorSpec, Tokens, new_table
from peirce_kg.parts.positions import query_graph as graph
from peirce_kg.parts.positions.query_graph import APART, DISTANCES, ROLE_SETS, ROLES, of_pairs


@frozen(kw_only=True)
class GraphAtomsOptions:
    """What is told apart beside the roles.

    Args:
        distances: whether the signed distance in the query graph has a vector too.
    """

    distances: bool = False


class GraphAtoms(BinaryPosition):
    """u(x,y) = the sum of R[role] over the roles of x's node to y's, and of C[role] over those of y's node to x's.

    The roles are the edges of the query graph (head to relation, relation to tail, relation to negation, negation to
    tail, union to answer), the node itself, and the atoms, positive and negative, from head to tail. Which relation an
    atom has is in the unary atoms of the relation's own token.
    """

    name = "atoms"
    source = "FOLNet (Chen, 2023), Section 3.1: relations between objects are binary atoms; TEGA, Appendix F: the graph"
    Options = GraphAtomsOptions

    @classmethod
    def check(cls, options: GraphAtomsOptions, dims: Dims, scope: str) -> str | None:
        """Why there is nothing to put the relations in."""
        return None if dims.binary else "it gives the initial binary atoms, and the model has none"

    def __init__(self, options: GraphAtomsOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.roles = new_table(len(ROLES), dims.binary)
        self.converse_roles = new_table(len(ROLES), dims.binary)
        self.distances = new_table(DISTANCES, dims.binary) if options.distances else None
        places = torch.arange(len(ROLES))
        members = torch.arange(ROLE_SETS).unsqueeze(1).div(2**places, rounding_mode="floor") % 2
        self.register_buffer("members", members.float(), persistent=False)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Each token's node, and its roles and, if asked for, its distance to every node."""
        distances = () if self.distances is None else (graph.GRAPH_DISTANCES,)
        return (graph.GRAPH_NODES, graph.GRAPH_ROLES, *distances)

    def binary(self, tokens: Tokens) -> Tensor:
        """[b, x, y, d2]; zero between tokens outside the graph and all others."""
        atoms = F.embedding(of_pairs(tokens, "graph_roles"), self._sums(self.roles))
        converse = of_pairs(tokens, "graph_roles", converse=True)
        atoms = atoms + F.embedding(converse, self._sums(self.converse_roles))
        if self.distances is not None:
            codes = of_pairs(tokens, "graph_distances")
            atoms = atoms + self.distances(codes).masked_fill((codes == APART).unsqueeze(-1), 0.0)
        return atoms.to(self.roles.get_parameter("weight").dtype)

    def _sums(self, roles: torch.nn.Module) -> Tensor:
        """The vector of every set of roles, [2**roles, d2], in at least float32: a sum, rounded once it is whole."""
        vectors = at_least_float32(roles.get_parameter("weight"))
        return self.get_buffer("members").to(vectors.dtype) @ vectors

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: the vectors of its roles, of the converse ones, and of the distance."""
        nodes, tokens = given["graph_nodes"], range(len(scope))
        tables = [parameters[f"{name}.weight"] for name in ("roles", "converse_roles")]
        far = parameters["distances.weight"] if self.options.distances else None

        def pair(x: int, y: int) -> list[float]:
            sets = given["graph_roles"][x][nodes[y]], given["graph_roles"][y][nodes[x]]
            vectors = [
                table[place]
                for table, roles in zip(tables, sets, strict=True)
                for place in range(len(ROLES))
                if roles >> place & 1
            ]
            if far is not None and (code := given["graph_distances"][x][nodes[y]]) != APART:
                vectors.append(far[code])
            return [sum(vector[channel] for vector in vectors) for channel in range(dims.binary)]

        return {"binary": [[pair(x, y) for y in tokens] for x in tokens]}
