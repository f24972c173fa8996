"""The query graph of TEGA's Appendix F: atoms as paths of nodes, with nodes for negations and for the union.

`r(h,t)` is the path h -> r -> t and its negation h -> r -> n -> t. Each of a query's conjunctions
has a graph; their free variables are one union node u, which leads to the free variable.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal as OneOf
from typing import TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from peirce_queries.languages.language import FREE, Constant, Literal, Query, Term
from peirce_queries.languages.parsing import QueryError

Kind: TypeAlias = OneOf["entity", "existential", "free", "relation", "negation", "union"]

NO_PATH = np.iinfo(np.int64).min
"""The distance of nodes that no path joins."""
MAX_NODES = 1024
"""Nodes that a query graph may have."""


@frozen
class Node:
    """A node of a query graph.

    name: of the entity, variable or relation; `!` for a negation, `|` for the union; literal: what a relation or a
    negation belongs to, None for others.
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
        nodes: list[Node] = []
        numbers: dict[object, int] = {}
        edges: dict[tuple[int, int], None] = {}

        def number(key: object, kind: Kind, name: str, literal: Literal | None = None) -> int:
            if key not in numbers:
                if len(nodes) == MAX_NODES:
                    raise QueryError(f"the query's graph has more than {MAX_NODES} nodes; split the query")
                numbers[key] = len(nodes)
                nodes.append(Node(kind, name, literal))
            return numbers[key]

        def end(place: int, term: Term) -> int:
            # the free variables of all conjunctions meet in one node
            if term == FREE:
                return number(FREE, "union", "|") if several else number(FREE, "free", FREE.name)
            return number((place, term), "entity" if isinstance(term, Constant) else "existential", term.name)

        for place, conjunction in enumerate(conjunctions):
            for literal in conjunction:
                atom = literal.atom
                path = [end(place, atom.head), number((place, literal), "relation", atom.relation, literal)]
                if not literal.positive:
                    path.append(number((place, literal, "!"), "negation", "!", literal))
                path.append(end(place, atom.tail))
                edges.update(dict.fromkeys(pairwise(path)))
        if several:
            edges[end(0, FREE), number("answer", "free", FREE.name)] = None
        return cls(tuple(nodes), tuple(edges))

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
            The distances; `NO_PATH` where there is no path.
        """
        count = len(self.nodes)
        far = float(count)
        lengths = np.full((count, count), far)
        for start, end in self.edges:
            lengths[start, end] = 1
            if not signed:
                lengths[end, start] = 1
        np.fill_diagonal(lengths, 0)
        for between in range(count):
            np.minimum(lengths, lengths[:, between, None] + lengths[None, between], out=lengths)
        back = lengths.T
        shortest = np.where(back < lengths, -back, lengths) if signed else lengths
        return np.where(np.abs(shortest) < far, shortest, NO_PATH).astype(np.int64)
