"""Query graphs as pictures, drawn by matplotlib: from the entities on the left to the free variable.

Columns are the lengths of the longest paths to a node that nothing leaves. Within a column, nodes stand where their
neighbours are; an edge over several columns is bent, so that it does not run through what stands between.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from peirce.errors import TaskError
from peirce.extras import check_picture
from peirce.files import write_whole
from peirce_queries.languages.querygraph import Kind, Node, QueryGraph

MAX_DRAWN = 200
"""Nodes of a graph that is drawn."""
_SWEEPS = 8
_LONGEST_NAME = 28
_ROW, _GAP, _CHARACTER = 0.62, 0.75, 0.085
"""Inches from row to row, between columns, and for a character of a name."""
_LABELS = {"negation": "¬", "union": "∪"}
_FILL: dict[Kind, str] = {
    "entity": "#cfe2f3", "existential": "#ffffff", "free": "#ffd966", "relation": "#eeeeee", "negation": "#f4cccc",
    "union": "#d9ead3",
}  # fmt: skip
_EDGE = {"color": "#555555", "arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 1}
Place: TypeAlias = tuple[float, float]


def draw(graph: QueryGraph, path: Path, title: str = "") -> None:
    """Draw a query graph, of at most `MAX_DRAWN` nodes, into a file; see `write_picture`."""
    if len(graph.nodes) > MAX_DRAWN:
        raise TaskError(f"the query's graph has {len(graph.nodes)} nodes; up to {MAX_DRAWN} are drawn")
    write_picture(path, lambda: _figure(graph), title)


def write_picture(path: Path, figure: Callable[[], Any], title: str = "") -> None:
    """Write a picture whole or not at all: the same bytes for the same picture, and text that stays text.

    Args:
        path: a file that `check_picture` allows.
        figure: makes the matplotlib figure; called once it is known that it can be written.
        title: what the file's metadata say of it.

    Raises:
        TaskError: as `check_picture`.
    """
    check_picture(path, extra="peirce-queries[pictures]")
    from matplotlib import rc_context

    form, picture = path.suffix.lower()[1:], io.BytesIO()
    # Text stays text, so that it can be searched; without a date, one figure gives one file.
    with rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        figure().savefig(picture, format=form, dpi=150, metadata={"Title": legible(title), **dates})
    write_whole(path, picture.getvalue())


def label(node: Node) -> str:
    """What stands in a node; long names are cut."""
    shown = legible(_LABELS.get(node.kind, node.name))
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"


def legible(text: str) -> str:
    """A text with escapes in place of characters that cannot be printed, which no XML file may hold."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def layout(graph: QueryGraph) -> tuple[list[Place], Place]:
    """The middle of each node in inches from the lower left, and the width and height of the whole."""
    columns = _columns(graph)
    places: dict[int, Place] = {}
    height = max(map(len, columns)) * _ROW
    left = _GAP / 2
    for column in columns:
        width = max(len(label(graph.nodes[node])) for node in column) * _CHARACTER
        places |= {n: (left + width / 2, height / 2 - row * _ROW) for n, row in _heights(column).items()}
        left += width + _GAP
    return [places[node] for node in range(len(graph.nodes))], (left - _GAP / 2, height)


def _columns(graph: QueryGraph) -> list[list[int]]:
    """The nodes of each column, from the left: as far to the right as the nodes that they lead to allow."""
    import networkx as nx

    directed: Any = nx.DiGraph()
    directed.add_nodes_from(range(len(graph.nodes)))
    directed.add_edges_from(graph.edges)
    joined = directed.to_undirected()
    while not nx.is_directed_acyclic_graph(directed):
        directed.remove_edge(*nx.find_cycle(directed)[-1][:2])
    columns = [sorted(nodes) for nodes in nx.topological_generations(directed.reverse())][::-1]
    height = {node: row for column in columns for node, row in _heights(column).items()}
    # Sorting by the mean height of neighbours, back and forth, untangles most edges.
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 else columns[::-1]:
            near = {node: [height[other] for other in joined[node]] for node in column}
            column.sort(key=lambda node: sum(near[node]) / max(len(near[node]), 1))
            height.update(_heights(column))
    return columns


def _heights(column: list[int]) -> dict[int, float]:
    return {node: row - (len(column) - 1) / 2 for row, node in enumerate(column)}


def _figure(graph: QueryGraph) -> Any:
    from matplotlib.figure import Figure

    places, size = layout(graph)
    figure = Figure(figsize=size)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, size[0]), ylim=(0, size[1]))
    axes.set_axis_off()
    boxes = [_box(axes, node, place) for node, place in zip(graph.nodes, places, strict=True)]
    columns = sorted({x for x, _ in places})
    for start, end in graph.edges:
        across = abs(columns.index(places[end][0]) - columns.index(places[start][0]))
        upwards = places[start][1] + places[end][1] >= size[1]
        style = f"arc3,rad={0.0 if across == 1 else -0.25 if upwards else 0.25}"
        axes.annotate(
            "", xy=places[end], xytext=places[start], zorder=2,
            arrowprops={**_EDGE, "connectionstyle": style, "patchA": boxes[start], "patchB": boxes[end]},
        )  # fmt: skip
    return figure


def _box(axes: Any, node: Node, place: Place) -> Any:
    """A node's text, in a box of its kind, over the edges; returns the box."""
    round_ = node.kind in ("existential", "free", "negation", "union")
    style = "circle,pad=0.35" if round_ else "round,pad=0.35" if node.kind == "entity" else "square,pad=0.3"
    box = {"boxstyle": style, "facecolor": _FILL[node.kind], "edgecolor": "#555555"}
    centred = {"ha": "center", "va": "center", "fontsize": 10, "parse_math": False, "zorder": 1}
    return axes.text(*place, label(node), bbox=box, **centred).get_bbox_patch()
