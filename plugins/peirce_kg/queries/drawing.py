"""Query graphs as pictures, drawn by matplotlib."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from peirce.errors import TaskError

from peirce_kg.queries.layout import Place, label, layout
from peirce_kg.queries.pictures import write_picture
from peirce_kg.queries.querygraph import Kind, Node, QueryGraph

MAX_DRAWN = 200
"""Nodes of a graph that is drawn."""
_FILL: dict[Kind, str] = {
    "entity": "#cfe2f3",
    "existential": "#ffffff",
    "free": "#ffd966",
    "relation": "#eeeeee",
    "negation": "#f4cccc",
    "union": "#d9ead3",
}


def draw(graph: QueryGraph, path: Path, title: str = "") -> None:
    """Draw a query graph into a file, whose ending says the format.

    Args:
        graph: what is drawn.
        path: a file that ends in one of `peirce.extras.PICTURES`.
        title: what the file's metadata say of it.

    Raises:
        TaskError: the ending is another, the graph is too large, or matplotlib is missing.
    """
    if len(graph.nodes) > MAX_DRAWN:
        raise TaskError(f"the query's graph has {len(graph.nodes)} nodes; up to {MAX_DRAWN} are drawn")
    write_picture(path, lambda: _figure(graph), title)


def _figure(graph: QueryGraph) -> Any:
    from matplotlib.figure import Figure

    laid = layout(graph)
    figure = Figure(figsize=laid.size)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, laid.size[0]), ylim=(0, laid.size[1]))
    axes.set_axis_off()
    boxes = [_box(axes, node, place) for node, place in zip(graph.nodes, laid.places, strict=True)]
    for (start, end), corners in zip(graph.edges, laid.routes, strict=True):
        _edge(axes, (laid.places[start], *corners, laid.places[end]), boxes[start], boxes[end])
    return figure


def _box(axes: Any, node: Node, place: Place) -> Any:
    """A node's text, in a box of its kind, over the edges; returns the box."""
    round_ = node.kind in ("existential", "free", "negation", "union")
    style = "circle,pad=0.35" if round_ else "round,pad=0.35" if node.kind == "entity" else "square,pad=0.3"
    text = axes.text(
        *place,
        label(node),
        ha="center",
        va="center",
        fontsize=10,
        parse_math=False,
        zorder=1,
        bbox={"boxstyle": style, "facecolor": _FILL[node.kind], "edgecolor": "#555555"},
    )
    return text.get_bbox_patch()


def _edge(axes: Any, points: tuple[Place, ...], start: Any, end: Any) -> None:
    """A line through points, from the rim of one box to that of another, with an arrow at its end."""
    stretches = list(pairwise(points))
    for number, (here, there) in enumerate(stretches):
        first, last = number == 0, number == len(stretches) - 1
        axes.annotate(
            "",
            xy=there,
            xytext=here,
            # Boxes get their size when they are drawn, so the edges that end at them are drawn after.
            zorder=2,
            arrowprops={
                "arrowstyle": "-|>" if last else "-",
                "color": "#555555",
                "patchA": start if first else None,
                "patchB": end if last else None,
                "shrinkA": 0,
                "shrinkB": 1 if last else 0,
            },
        )
