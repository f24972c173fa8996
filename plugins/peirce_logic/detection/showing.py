"""Relations as JSON lines, as coloured HTML, and as a picture."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

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
    """The text with each keyword on the colour of its relation, its spans underlined with it, and a legend.

    Spans that overlap have lines below each other.
    """
    levels = _levels(relations)
    marks = sorted(
        mark for each, level in zip(relations, levels, strict=True) for mark in _marks(each, level, text)
    )
    body, at, active = [], 0, list[_Mark]()
    for start, end in pairwise(sorted({0, len(text), *(place for mark in marks for place in mark[:2])})):
        while at < len(marks) and marks[at].start <= start:
            active.append(marks[at])
            at += 1
        active = [mark for mark in active if mark.end > start]
        shown = escape(text[start:end])
        for mark in sorted(active, key=lambda mark: mark.level):
            shown = f"{mark.opened}{shown}</{'mark' if mark.level < 0 else 'span'}>"
        body.append(shown)
    room = 1.6 + 0.25 * max(levels, default=0)
    used = [name for name, _ in RELATIONS if any(each.relation == name for each in relations)]
    legend = "".join(
        f'<li><mark style="background:{COLOURS[name]}">{name.replace("_", " ")}</mark></li>' for name in used
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Logical relations</title>'
        "<style>body{font:1.1em/1.6 serif;max-width:45em;margin:2em auto}mark{color:#fff;padding:0 .2em}"
        "span{border-bottom:2px solid}"
        "ul{list-style:none;padding:0}li{display:inline-block;margin-right:.6em}</style>"
        f'<ul>{legend}</ul><p style="white-space:pre-wrap;line-height:{room:g}">{"".join(body)}</p></html>\n'
    )


class _Mark(NamedTuple):
    """A stretch of text that is marked: how far below it its line lies, -1 for a keyword; and the tag that opens it."""

    start: int
    end: int
    level: int
    opened: str


def _marks(relation: Relation, level: int, text: str) -> Iterator[_Mark]:
    colour = COLOURS[relation.relation]
    spans = f"{words_of(relation.alpha, text) or '-'} | {words_of(relation.beta, text) or '-'}"
    title = escape(f"{relation.relation}: {spans}")
    yield _Mark(*relation.key, -1, f'<mark style="background:{colour}" title="{title}">')
    for role, own in (("alpha", relation.alpha), ("beta", relation.beta)):
        title = escape(f"{relation.relation}: {role} of {relation.keyword}")
        style = f"border-color:{colour};padding-bottom:{4 * level}px"
        for span in own:
            yield _Mark(*span, level, f'<span style="{style}" title="{title}">')


def _levels(relations: Sequence[Relation]) -> list[int]:
    """How far below the text the lines of each relation lie: spans that overlap have different ones."""
    found: list[int] = []
    first = 0
    for number, relation in enumerate(relations):
        while relations[first].sentence < relation.sentence - 1:  # spans reach to the sentence before
            first += 1
        own = (*relation.alpha, *relation.beta)
        taken = {
            found[i]
            for i in range(first, number)
            for other in (*relations[i].alpha, *relations[i].beta)
            if any(other.start < span.end and span.start < other.end for span in own)
        }
        found.append(next(level for level in range(number + 1) if level not in taken))
    return found


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
