"""Relations as JSON lines, as coloured HTML, and as a picture."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from peirce.errors import TaskError
from peirce.extras import require

from peirce_logic.detection.algorithm import Relation, Spans
from peirce_logic.relations import RELATIONS

BETWEEN = " ... "
"""Stands between the two pieces of a span."""
COLOURS: Mapping[str, str] = dict(
    zip(
        (name for name, _ in RELATIONS),
        (
            "#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948",
            "#b07aa1", "#ff9da7", "#9c755f", "#bab0ac", "#17becf", "#8c564b",
        ),
        strict=True,
    )
)  # fmt: skip
"""One colour a relation."""


def as_object(relation: Relation, text: str) -> dict[str, Any]:
    """A relation as one JSON object, its spans as text; null where there is none."""
    return {
        "sentence": relation.sentence,
        "relation": relation.relation,
        "keyword": relation.keyword,
        "alpha": words_of(relation.alpha, text),
        "beta": words_of(relation.beta, text),
    }


def words_of(spans: Spans, text: str) -> str | None:
    """The text of a span, its pieces joined by " ... "; None for an empty one."""
    return BETWEEN.join(text[start:end] for start, end in spans) or None


def as_html(relations: Sequence[Relation], text: str) -> str:
    """The text with each keyword in the colour of its relation, its spans underlined, and a legend."""
    marks: dict[int, list[str]] = {}
    for relation in relations:
        colour = COLOURS[relation.relation]
        start, end = relation.key
        shown = f"{relation.relation}: {words_of(relation.alpha, text) or '-'} | {words_of(relation.beta, text) or '-'}"
        marks.setdefault(start, []).insert(
            0, f'<mark style="background:{colour}" title="{escape(shown, quote=True)}">'
        )
        marks.setdefault(end, []).append("</mark>")
    body, at = [], 0
    for place in sorted(marks):
        # What closes here stands before what opens here.
        body += [
            escape(text[at:place]),
            *sorted(marks[place], key=lambda mark: not mark.startswith("</")),
        ]
        at = place
    body.append(escape(text[at:]))
    used = [name for name, _ in RELATIONS if any(each.relation == name for each in relations)]
    legend = "".join(
        f'<li><mark style="background:{COLOURS[name]}">{name.replace("_", " ")}</mark></li>' for name in used
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Logical relations</title>'
        "<style>body{font:1.1em/1.6 serif;max-width:45em;margin:2em auto}mark{color:#fff;padding:0 .2em}"
        "ul{list-style:none;padding:0}li{display:inline-block;margin-right:.6em}</style>"
        f'<ul>{legend}</ul><p style="white-space:pre-wrap">{"".join(body)}</p></html>\n'
    )


WIDE = 88
"""How many characters a line of a picture has."""
HIGH = 200
"""The most lines of a picture; matplotlib draws none that is higher than 65,536 pixels."""


def as_png(relations: Sequence[Relation], text: str) -> bytes:
    """The text as a picture: keywords on the colour of their relation, their spans underlined with it, and a legend.

    Args:
        relations: of the text; one more line under a span for each relation that it is in.
        text: the document's text.

    Raises:
        TaskError: matplotlib is not installed, or the text has too many lines.
    """
    require("drawing relations", "matplotlib", extra="train")
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    lines = _lines(text)
    if len(lines) > HIGH:
        raise TaskError(
            f"the text has {len(lines):,} lines of {WIDE} characters, and a picture at most {HIGH}; give a part of it, "
            "or show it as HTML"
        )
    used = [name for name, _ in RELATIONS if any(each.relation == name for each in relations)]
    high = len(lines) + len(used) + 1
    figure = Figure(figsize=(WIDE / 10, 0.4 * high))
    axes = figure.add_axes((0.01, 0.01, 0.98, 0.98), xlim=(-1, WIDE + 1), ylim=(high, 0))
    axes.set_axis_off()

    def mark(start: int, end: int, colour: str, top: float, height: float) -> None:
        for row, (begin, stop) in enumerate(lines):
            left, right = max(start, begin), min(end, stop)
            if left < right:
                place = (left - begin, row + top)
                axes.add_patch(Rectangle(place, right - left, height, color=colour, linewidth=0))

    for number, relation in enumerate(relations):
        colour = COLOURS[relation.relation]
        for start, end in (*relation.alpha, *relation.beta):
            mark(start, end, colour, 0.76 + 0.07 * (number % 3), 0.05)
        mark(*relation.key, colour, 0.1, 0.6)
    style: Any = {"family": "monospace", "fontsize": 9, "va": "center", "ha": "center"}
    for row, (begin, stop) in enumerate(lines):
        for i in range(begin, stop):
            inside = any(relation.key.start <= i < relation.key.end for relation in relations)
            shown = text[i] if text[i].isprintable() else " "
            # What looks like a formula to matplotlib is none.
            axes.text(
                i - begin + 0.5,
                row + 0.4,
                shown.replace("$", r"\$"),
                color="white" if inside else "black",
                **style,
            )
    for i, name in enumerate(used):
        axes.add_patch(Rectangle((0, len(lines) + i + 1.1), 2, 0.6, color=COLOURS[name], linewidth=0))
        axes.text(3, len(lines) + i + 1.4, name.replace("_", " "), **{**style, "ha": "left"})
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=150)
    return picture.getvalue()


def _lines(text: str) -> list[tuple[int, int]]:
    """Where the lines of a picture begin and end, broken at spaces where there are any."""
    found, start = [], 0
    while start < len(text):
        stop = min(start + WIDE, len(text))
        newline = text.find("\n", start, stop)
        if newline >= 0:
            stop = newline + 1
        elif stop < len(text) and (space := text.rfind(" ", start + 1, stop)) > 0:
            stop = space + 1
        found.append((start, stop))
        start = stop
    return found
