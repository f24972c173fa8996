"""The query graph of TEGA's Appendix F: atoms as paths of nodes, with nodes for negations and for the union.

`r(h,t)` is the path h -> r -> t and its negation h -> r -> n -> t. Each of a query's conjunctions
has a graph; their free variables are one union node u, which leads to the free variable.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal as OneOf
from typing import TypeAlias

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from peirce_kg.queries.language import FREE, Conjunction, Constant, Literal, Query, Term
from peirce_kg.queries.parsing import QueryError

Kind: TypeAlias = OneOf["entity", "existential", "free", "relation", "negation", "union"]

APART = np.iinfo(np.int64).min
"""The distance of nodes that no path joins."""
MAX_NODES = 1024
"""Nodes that a query graph may have."""


@frozen
class Node:
    """A node of a query graph.

    Args:
        kind: what it stands for.
        name: of the entity, variable or relation; `!` for a negation, `|` for the union.
        literal: the atom, negated or not, that a relation or negation node belongs to; None for others.
    """

    kind: Kind
    name: str
    literal: Literal | None = None


@frozen
class QueryGraph:
    """A query as a directed graph.

    Within a conjunction an entity or a variable is one node, and every atom has a relation node of its own.
    Conjunctions share the union node alone, as existential variables of different conjunctions are independent.

    Args:
        nodes: in the order in which the disjunctive normal form mentions them; the free variable of a union is last.
        edges: numbers of nodes, from and to; each once.
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, query: Query) -> QueryGraph:
        """The graph of a query.

        Raises:
            QueryError: it would have more than `MAX_NODES` nodes, or too large a disjunctive normal form.
        """
        conjunctions = query.conjunctions()
        several = len(conjunctions) > 1
        making = _Making()
        free, union = Node("free", FREE.name), Node("union", "|")
        for conjunction in conjunctions:
            making.add(conjunction, union if several else free)
        if several:
            making.edges[making.meeting(union), making.new(free)] = None
        return cls(tuple(making.nodes), tuple(making.edges))

    @property
    def free(self) -> int:
        """The number of the free variable's node."""
        return next(number for number, node in enumerate(self.nodes) if node.kind == "free")

    def distances(self, *, signed: bool) -> NDArray[np.int64]:
        """How many edges the shortest path from node x to node y has: int64 [n, n].

        Args:
            signed: follow edges along their direction, and count those of a path from y to x below zero; where there
                is a path both ways, the shorter counts, and along the direction if they are equal. Otherwise follow
                edges either way.

        Returns:
            The distances; `APART` where there is no path.
        """
        far = float(len(self.nodes))
        lengths = np.full((len(self.nodes), len(self.nodes)), far)
        np.fill_diagonal(lengths, 0)
        for start, end in self.edges:
            if start != end:
                lengths[start, end] = 1
                lengths[end, start] = lengths[end, start] if signed else 1
        for between in range(len(self.nodes)):
            np.minimum(lengths, lengths[:, between, None] + lengths[None, between], out=lengths)
        back = lengths.T
        shortest = np.where(back < lengths, -back, lengths) if signed else lengths
        return np.where(np.abs(shortest) < far, shortest, APART).astype(np.int64)


@define
class _Making:
    """A graph while it is made."""

    nodes: list[Node] = field(factory=list)
    edges: dict[tuple[int, int], None] = field(factory=dict)
    _meeting: dict[Node, int] = field(factory=dict)

    def new(self, node: Node) -> int:
        if len(self.nodes) == MAX_NODES:
            raise QueryError(f"the query's graph has more than {MAX_NODES} nodes; split the query")
        self.nodes.append(node)
        return len(self.nodes) - 1

    def meeting(self, node: Node) -> int:
        """The number of the node that all conjunctions share."""
        if node not in self._meeting:
            self._meeting[node] = self.new(node)
        return self._meeting[node]

    def add(self, conjunction: Conjunction, free: Node) -> None:
        """One conjunction, with `free` in the place of its free variable."""
        places: dict[Term, int] = {}

        def place(term: Term) -> int:
            if term == FREE:
                return self.meeting(free)
            if term not in places:
                kind: Kind = "entity" if isinstance(term, Constant) else "existential"
                places[term] = self.new(Node(kind, term.name))
            return places[term]

        for literal in conjunction:
            path = [place(literal.atom.head), self.new(Node("relation", literal.atom.relation, literal))]
            if not literal.positive:
                path.append(self.new(Node("negation", "!", literal)))
            path.append(place(literal.atom.tail))
            self.edges.update(dict.fromkeys(pairwise(path)))
