"""What a query looks like as a graph: the features that TEGA's Tables 10 and 11 list for each type."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import networkx as nx
from attrs import frozen

from peirce_queries.languages.language import FREE, Conjunction, Query, Variable
from peirce_queries.languages.parsing import QueryError

MAX_TANGLED = 12
"""Variables whose atoms may run in directed circles for the depth to be computed; its cost doubles with each."""


@frozen(kw_only=True)
class Features:
    """Features of a query (TEGA, Appendix A); a negated atom counts as an edge, as in types 15, 52 and 54.

    Each conjunction of the disjunctive normal form is a graph whose nodes are variables and constants and whose edges
    are atoms; a query has a feature where one of its conjunctions has it.

    Args:
        multiple_edges: two atoms join the same two variables.
        cycle: variables stand in a circle, more than two, or one by itself as in r(f,f).
        existential_leaf: an existential variable has one neighbour.
        negation: an atom is negated.
        depth: atoms on the longest path along their direction that comes to no variable twice.
    """

    multiple_edges: bool
    cycle: bool
    existential_leaf: bool
    negation: bool
    depth: int


def features(query: Query) -> Features:
    """The features of a query.

    Raises:
        QueryError: its disjunctive normal form is too large, or its variables are too tangled to find the depth.
    """
    conjunctions = query.conjunctions()
    graphs = [_graph(conjunction) for conjunction in conjunctions]
    joined = [[frozenset(ends) for ends in graph.edges() if ends[0] != ends[1]] for graph in graphs]
    return Features(
        multiple_edges=any(len(set(pairs)) < len(pairs) for pairs in joined),
        cycle=any(not nx.is_forest(nx.Graph(graph.to_undirected())) for graph in graphs),
        existential_leaf=any(
            isinstance(node, Variable) and node != FREE and len({*nx.all_neighbors(graph, node)} - {node}) < 2
            for graph in graphs
            for node in graph
        ),
        negation=any(not literal.positive for conjunction in conjunctions for literal in conjunction),
        depth=max(map(_depth, graphs)),
    )


def _graph(conjunction: Conjunction) -> Any:
    """The atoms as a directed multigraph. A constant is a node of its own in each atom: it could be written twice."""
    graph: Any = nx.MultiDiGraph()
    for number, atom in enumerate(dict.fromkeys(literal.atom for literal in conjunction)):
        ends = zip(atom.terms, ("head", "tail"), strict=True)
        graph.add_edge(*(term if isinstance(term, Variable) else (number, end) for term, end in ends))
    return graph


def _depth(graph: Any) -> int:
    if nx.is_directed_acyclic_graph(graph):
        return int(nx.dag_longest_path_length(graph))
    variables = sum(isinstance(node, Variable) for node in graph)
    if variables > MAX_TANGLED:
        raise QueryError(
            f"the atoms of {variables} variables run in circles; the depth of a query is found for up to {MAX_TANGLED}"
        )

    @cache
    def longest(node: object, visited: frozenset[object]) -> int:
        onward: Iterable[object] = set(graph.successors(node)) - visited
        return max((1 + longest(n, visited | {n}) for n in onward), default=0)

    return max(longest(node, frozenset({node})) for node in graph)
