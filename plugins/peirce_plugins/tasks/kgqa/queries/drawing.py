"""Query graphs as pictures, drawn by matplotlib."""

from __future__ import annotations

import io
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

from peirce.errors import TaskError
from peirce.files import write_whole

from peirce_plugins.tasks.extras import require
from peirce_plugins.tasks.kgqa.queries.layout import Place, label, layout, legible
from peirce_plugins.tasks.kgqa.queries.querygraph import Kind, Node, QueryGraph

FORMATS = (".svg", ".png", ".pdf")
"""Endings of files that pictures can have."""
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
        path: a file that ends in one of `FORMATS`.
        title: what the file's metadata say of it.

    Raises:
        TaskError: the ending is another, the graph is too large, or matplotlib is missing.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise TaskError(f"{path} names no format of pictures; let it end in {', '.join(FORMATS)}")
    if len(graph.nodes) > MAX_DRAWN:
        raise TaskError(f"the query's graph has {len(graph.nodes)} nodes; up to {MAX_DRAWN} are drawn")
    require("drawing a query", "matplotlib", extra="kg")
    write_whole(path, _picture(graph, suffix[1:], title))


def _picture(graph: QueryGraph, form: str, title: str) -> bytes:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    laid = layout(graph)
    picture = io.BytesIO()
    # Text stays text, so that it can be searched; without a date, one query gives one file.
    with rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=laid.size)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, laid.size[0]), ylim=(0, laid.size[1]))
        axes.set_axis_off()
        boxes = [_box(axes, node, place) for node, place in zip(graph.nodes, laid.places, strict=True)]
        for (start, end), corners in zip(graph.edges, laid.routes, strict=True):
            _edge(axes, (laid.places[start], *corners, laid.places[end]), boxes[start], boxes[end])
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        figure.savefig(picture, format=form, dpi=150, metadata={"Title": legible(title), **dates})
    return picture.getvalue()


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
