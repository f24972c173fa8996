"""A text with labelled stretches in SVG: words on a colour, and lines of that colour below what they join."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from peirce.errors import TaskError
from peirce_show.svg import Markup, element, join_markup, text_width
from peirce_show.viewers import Mark, View
from peirce_show.views.matrices import Block

PALETTE = (
    "#4e79a7", "#f28e2b", "#e15759", "#59a14f", "#b07aa1", "#d4a72c",
    "#17a2b8", "#ff7f9e", "#9c755f", "#7f8b99", "#2e9e83", "#7d5fd3",
)  # fmt: skip
"""The colours of labels, in their order: neither light nor dark, so that lines of them show on white and on black."""
LONGEST = 10_000
"""The most characters of a text that is drawn."""
WIDTH = 420.0
_SIZE, _LINE, _LEVEL = 9.0, 13.0, 6.0


def draw_text(view: View) -> Block:
    """Draw the text of a view in lines, with its marks and a legend of their colours.

    Raises:
        TaskError: the text is too long.
    """
    if len(view.text) > LONGEST:
        raise TaskError(
            f"the text has {len(view.text):,} characters, and at most {LONGEST:,} are drawn; give a part of it"
        )
    levels, drawn, top = _levels(view.marks), list[Markup](), 0.0
    colours = {label: PALETTE[i % len(PALETTE)] for i, label in enumerate(view.labels)}
    for start, end in _lines(view.text):
        places = [0.0]
        for letter in view.text[start:end]:
            places.append(places[-1] + text_width(letter, _SIZE))
        deep = 0
        for mark in view.marks:
            left, right = max(mark.start, start) - start, min(mark.end, end) - start
            if left >= right:
                continue
            level = levels.get(mark.group)
            deep = max(deep, 0 if level is None else level + 1)
            high = {"y": top, "height": _SIZE + 2.5}
            if level is not None:
                high = {"y": top + _SIZE + 5 + _LEVEL * level, "height": 1.5}
            if level is not None and mark.sign and mark.start >= start:
                drawn.append(_word(mark.sign, places[left], float(high["y"]) + 2.6, 5.5))
                left_edge = places[left] + text_width(mark.sign, 5.5) + 1
            else:
                left_edge = places[left]
            drawn.append(
                element(
                    "rect",
                    element("title", mark.meaning),
                    x=left_edge,
                    width=places[right] - left_edge,
                    fill=colours[mark.label],
                    fill_opacity=0.35 if level is None else None,
                    **high,
                )
            )
        drawn += [
            _word(word[0], places[word.start()], top + _SIZE, _SIZE)
            for word in re.finditer(r"\S+", view.text[start:end])
        ]
        top += _LINE + _LEVEL * deep + (3 if deep else 0)
    used = {mark.label for mark in view.marks}
    legend = _legend({label: colour for label, colour in colours.items() if label in used}, top + 4)
    return Block(join_markup([*drawn, legend.drawn]), WIDTH, top + 4 + legend.height)


def _word(text: str, x: float, y: float, size: float) -> Markup:
    """A word of a fixed width, whatever the font, so that the lines below it meet its ends."""
    return element(
        "text", text, x=x, y=y, font_size=size, fill="ink", font_family="Verdana, 'DejaVu Sans', sans-serif",
        textLength=text_width(text, size), lengthAdjust="spacingAndGlyphs", pointer_events="none",
    )  # fmt: skip


def _lines(text: str) -> list[tuple[int, int]]:
    """Where the lines begin and end, broken at spaces where there are any."""
    found, start = [], 0
    while start < len(text):
        stop, width = start, 0.0
        while stop < len(text) and text[stop] != "\n":
            width += text_width(text[stop], _SIZE)
            if width > WIDTH:
                break
            stop += 1
        if stop < len(text) and text[stop] != "\n" and (space := text.rfind(" ", start + 1, stop)) > 0:
            stop = space
        found.append((start, stop))
        start = stop + (stop < len(text) and text[stop].isspace())
    return found


def _levels(marks: Sequence[Mark]) -> Mapping[int | None, int]:
    """How far below the text the lines of each group lie: groups that overlap have different ones."""
    groups: dict[int, list[Mark]] = {}
    for mark in marks:
        if mark.group is not None:
            groups.setdefault(mark.group, []).append(mark)
    levels: dict[int | None, int] = {}
    for group, members in groups.items():
        taken = {
            level
            for other, level in levels.items()
            if other is not None
            and any(one.start < two.end and two.start < one.end for one in members for two in groups[other])
        }
        levels[group] = next(level for level in range(len(taken) + 1) if level not in taken)
    return levels


def _legend(colours: Mapping[str, str], top: float) -> Block:
    drawn, left, height = list[Markup](), 0.0, 0.0
    for label, colour in colours.items():
        width = 18 + text_width(label, 7.5)
        if left and left + width > WIDTH:
            left, height = 0.0, height + 12
        drawn.append(element("rect", x=left, y=top + height, width=10, height=8, fill=colour))
        drawn.append(element("text", label, x=left + 13, y=top + height + 7, font_size=7.5, fill="ink"))
        left += width
    return Block(join_markup(drawn), WIDTH, height + 12 if colours else 0.0)
