"""Where the nodes and edges of a query graph stand in a picture: from the entities on the left to the free variable.

Columns are the lengths of the longest paths to a node that nothing leaves; an edge over several columns keeps a place
in each, so that it does not run through nodes. Within a column, nodes stand where their neighbours are.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, TypeAlias

from attrs import frozen

from peirce_kg.queries.querygraph import Node, QueryGraph

_SWEEPS = 8
_LONGEST_NAME = 28
_ROW, _GAP, _CHARACTER = 0.62, 0.75, 0.085
"""Inches from row to row, between columns, and for a character of a name."""
_LABELS: dict[str, str] = {"negation": "¬", "union": "∪"}

Corner: TypeAlias = tuple[int, int, int]
"""A place on an edge between columns: the edge's ends and the column."""
Place: TypeAlias = tuple[float, float]
Held: TypeAlias = int | Corner
"""What a column holds: nodes by number, and corners."""


@frozen
class Layout:
    """Where nodes stand, in inches from the lower left.

    Args:
        places: the middle of each node.
        routes: for each edge, the corners that it passes on its way.
        size: width and height of the whole.
    """

    places: tuple[Place, ...]
    routes: tuple[tuple[Place, ...], ...]
    size: Place


def label(node: Node) -> str:
    """What stands in a node; long names are cut."""
    shown = legible(_LABELS.get(node.kind, node.name))
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"


def legible(text: str) -> str:
    """A text with escapes in place of characters that cannot be printed, which no XML file may hold."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def layout(graph: QueryGraph) -> Layout:
    """Where nodes and edges go."""
    column_of = _columns(graph)
    corners = {edge: _corners(edge, column_of) for edge in graph.edges}
    columns: list[list[Held]] = [[] for _ in range(max(column_of) + 1)]
    for number, column in enumerate(column_of):
        columns[column].append(number)
    links: list[tuple[Held, Held]] = []
    for (start, end), passed in corners.items():
        for corner in passed:
            columns[corner[2]].append(corner)
        links += pairwise((start, *passed, end))
    _order(columns, links)
    places, size = _places(columns, [len(label(node)) * _CHARACTER for node in graph.nodes])
    return Layout(
        tuple(places[number] for number in range(len(graph.nodes))),
        tuple(tuple(places[corner] for corner in corners[edge]) for edge in graph.edges),
        size,
    )


def _columns(graph: QueryGraph) -> list[int]:
    """The column of each node, from the left: as far to the right as the nodes that it leads to allow."""
    import networkx as nx

    directed: Any = nx.DiGraph()
    directed.add_nodes_from(range(len(graph.nodes)))
    directed.add_edges_from(graph.edges)
    while not nx.is_directed_acyclic_graph(directed):
        directed.remove_edge(*nx.find_cycle(directed)[-1][:2])
    generations = list(nx.topological_generations(directed.reverse()))
    from_right = {node: column for column, nodes in enumerate(generations) for node in nodes}
    return [len(generations) - 1 - from_right[node] for node in range(len(graph.nodes))]


def _corners(edge: tuple[int, int], column_of: list[int]) -> tuple[Corner, ...]:
    start, end = edge
    there, step = column_of[end], 1 if column_of[end] > column_of[start] else -1
    return tuple((start, end, column) for column in range(column_of[start] + step, there, step))


def _order(columns: list[list[Held]], links: Iterable[tuple[Held, Held]]) -> None:
    """Sort each column by the mean height of neighbours, back and forth, which untangles most edges."""
    neighbours: dict[Held, list[Held]] = {}
    for start, end in links:
        neighbours.setdefault(start, []).append(end)
        neighbours.setdefault(end, []).append(start)
    height: dict[Held, float] = {}
    for column in columns:
        height.update(_heights(column))
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 else columns[::-1]:
            mean = {
                n: sum(height[m] for m in near) / len(near) for n in column if (near := neighbours.get(n))
            }
            column.sort(key=lambda n: mean.get(n, 0.0))
            height.update(_heights(column))


def _heights(column: list[Held]) -> dict[Held, float]:
    return {node: row - (len(column) - 1) / 2 for row, node in enumerate(column)}


def _places(columns: list[list[Held]], widths: list[float]) -> tuple[dict[Held, Place], Place]:
    """Where everything that columns hold stands, and the size of the whole; widths: of the nodes."""
    places: dict[Held, Place] = {}
    height = max(map(len, columns)) * _ROW
    left = _GAP / 2
    for column in columns:
        width = max((widths[held] for held in column if isinstance(held, int)), default=0)
        places.update(
            (held, (left + width / 2, height / 2 - row * _ROW)) for held, row in _heights(column).items()
        )
        left += width + _GAP
    return places, (left - _GAP / 2, height)
