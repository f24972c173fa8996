"""The inputs from a query's graph: the node of each token, and its distances and roles to every other node.

A token stands for the nodes that it names: a term for the end of its atom, a relation for its own node, `!` for the
negations below it, `|` for the union. Where the disjunctive normal form repeats an atom, a token stands for several
nodes; tokens that stand for the same ones have one number. Parentheses and `&` stand for none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from peirce.errors import TaskError
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.encoding.writing import Mention, token_mentions
from peirce_kg.parts.positions.query_graph import APART, FARTHEST, NODES, OUTSIDE, ROLES
from peirce_queries import NO_PATH, Query, QueryGraph, Template, reverse

Small: TypeAlias = NDArray[np.uint8]
_ROLE = {name: 2**place for place, name in enumerate(ROLES)}


class TokenGraph(NamedTuple):
    """A query's graph by its tokens.

    nodes: uint8 [x], the number of what each token stands for; distances, roles: uint8 [x, `NODES`], the codes of the
    signed distances from each token to every number, and of its roles.
    """

    nodes: Small
    distances: Small
    roles: Small


@lru_cache(maxsize=1024)
def token_graph(query: Query, *, reversed_: bool = False) -> TokenGraph:
    """The graph of a query by the tokens of its EFO text, which may be written from its end.

    Raises:
        TaskError: its tokens stand for too many different things.
    """
    query = reverse(query) if reversed_ else query
    graph = QueryGraph.of(query)
    mentions = [mention for _, mention in token_mentions(query.formula)]
    sets = [frozenset(_nodes(graph, mention, mentions)) for mention in mentions]
    numbers = {nodes: i for i, nodes in enumerate(dict.fromkeys(filter(None, sets)), OUTSIDE + 1)}
    if len(numbers) >= NODES:
        raise TaskError(
            f"the graph of {query} has {len(numbers)} nodes; a model that looks at it reads at most {NODES - 1}: "
            "split the query"
        )
    steps, roles = signed_distances(graph), _roles(graph)
    distances_of = np.full((NODES, NODES), APART, np.uint8)
    roles_of = np.zeros((NODES, NODES), np.uint8)
    for here, x in numbers.items():
        for there, y in numbers.items():
            pairs = np.ix_(sorted(here), sorted(there))
            distances_of[x, y] = _distance_code(steps[pairs])
            roles_of[x, y] = np.bitwise_or.reduce(roles[pairs], axis=None)
    nodes = np.array([numbers.get(each, OUTSIDE) for each in sets], np.uint8)
    return TokenGraph(nodes, distances_of[nodes], roles_of[nodes])


def signed_distances(graph: QueryGraph) -> NDArray[np.int64]:
    """The length of the shortest path whichever way the edges point, below zero where y lies behind x: int64 [n, n].

    y lies behind x if a path leads from y to x, or if there is none either way and y is further from the answer.
    Query2Triple takes the sign of the difference of layers, which is the same where each node has one way to the
    answer. Where a node has several, as in a cycle, its code drops all but one of them, and is not followed.

    Returns:
        The distances; `NO_PATH` where there is no path.
    """
    lengths, along = graph.distances(signed=False), graph.distances(signed=True)
    ahead = along[:, graph.free]
    known = (ahead != NO_PATH)[:, None] & (ahead != NO_PATH)[None, :]
    behind = np.where(along != NO_PATH, along < 0, known & (ahead[:, None] < ahead[None, :]))
    return np.where(behind & (lengths != NO_PATH), -lengths, lengths)


def graph_inputs(template: Template, rows: int, vocabulary: Vocabulary) -> dict[str, Small]:
    """The graph of one query for each of its groundings, by the names of inputs: uint8 [rows, ...].

    Raises:
        TaskError: the syntax is not EFO, whose tokens alone are known by their nodes, or the query is too large.
    """
    if vocabulary.syntax != "efo":
        raise TaskError(f"a model that looks at query graphs reads EFO syntax, not {vocabulary.syntax}")
    graph = token_graph(template.query, reversed_=vocabulary.reversed_)._asdict()
    return {f"graph_{name}": np.broadcast_to(each, (rows, *each.shape)) for name, each in graph.items()}


def _nodes(graph: QueryGraph, mention: Mention, mentions: Sequence[Mention]) -> Iterator[int]:
    """The nodes that a token stands for."""
    what, atoms = mention
    written = any(each == "union" for each, _ in mentions)
    for number, node in enumerate(graph.nodes):
        atom = node.literal and node.literal.atom
        if what == node.kind and (atom is None or atom in atoms):
            yield number
        elif what in ("head", "tail") and node.kind == "relation" and atom in atoms:
            end = _head(graph, number) if what == "head" else _tail(graph, number)
            yield from _answer(graph, end, written=written)


def _answer(graph: QueryGraph, end: int, *, written: bool) -> Iterator[int]:
    """The nodes that an atom's end stands for: in a union's place the free variable, and the union if no token does."""
    union = graph.nodes[end].kind == "union"
    if union:
        yield graph.free
    if not union or not written:
        yield end


def _head(graph: QueryGraph, relation: int) -> int:
    return next(start for start, end in graph.edges if end == relation)


def _tail(graph: QueryGraph, relation: int) -> int:
    after = next(end for start, end in graph.edges if start == relation)
    return _tail(graph, after) if graph.nodes[after].kind == "negation" else after


def _roles(graph: QueryGraph) -> Small:
    """The roles of each node to each other one, [n, n]."""
    roles = np.zeros((len(graph.nodes),) * 2, np.uint8)
    np.fill_diagonal(roles, _ROLE["same"])
    for start, end in graph.edges:
        from_kind, to_kind = graph.nodes[start].kind, graph.nodes[end].kind
        if to_kind == "relation":
            role = "head"
        elif from_kind == "relation":
            role = "negation" if to_kind == "negation" else "tail"
        else:
            role = "negated" if from_kind == "negation" else "answer"
        roles[start, end] |= _ROLE[role]
    for number, node in enumerate(graph.nodes):
        if node.kind == "relation" and node.literal is not None:
            role = "atom" if node.literal.positive else "negative_atom"
            for head in _answer(graph, _head(graph, number), written=False):
                for tail in _answer(graph, _tail(graph, number), written=False):
                    roles[head, tail] |= _ROLE[role]
    return roles


def _distance_code(distances: NDArray[np.int64]) -> int:
    """The code of the shortest of several distances, ahead rather than behind."""
    joined = distances[distances != NO_PATH].tolist()
    if not joined:
        return APART
    shortest = min(joined, key=lambda distance: (abs(distance), distance < 0))
    return max(-FARTHEST, min(FARTHEST, shortest)) + FARTHEST
