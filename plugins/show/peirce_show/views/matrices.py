"""Matrices as heat maps in SVG, for papers, each with a bar of its colours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from peirce.errors import escape_controls
from peirce_show.svg import Markup, element, join_markup, text_of, text_width
from peirce_show.viewers import Matrix

CELL, SMALLEST, WIDE = 9.0, 3.0, 420.0
"""The side of a cell in points; it shrinks to `SMALLEST` where a panel would be wider than `WIDE`."""
PAGE = 505.0
"""The width of a paper's text, of two columns."""
LONGEST = 18
"""Characters of a token that are shown."""
_SIZE, _GAP, _BAR, _STEPS = 6.5, 14.0, 5.0, 20
_LABEL = {"fill": "ink", "text_anchor": "end", "dominant_baseline": "central"}
_AXIS = {"fill": "muted", "text_anchor": "middle"}


class Block(NamedTuple):
    """A drawn piece, with its size in points."""

    drawn: Markup
    width: float
    height: float


class Panel(NamedTuple):
    """One channel of a matrix under a title of lines; `most` is the number with the deepest colour."""

    title: tuple[str, ...]
    matrix: Matrix
    channel: int
    most: float


def shorten(tokens: Sequence[str]) -> list[str]:
    """The texts of tokens on an axis: of a path its last part, unless another has the same; long texts are cut."""
    last = {token: re.split(r"[/#]", token.rstrip("/#"))[-1] or token for token in tokens}
    parts, end = list(last.values()), LONGEST // 2
    texts = [last[token] if parts.count(last[token]) == 1 else token for token in tokens]
    texts = [escape_controls(text).replace("\n", "\\n") for text in texts]
    return [t if len(t) <= LONGEST else f"{t[: LONGEST - end - 1]}…{t[-end:]}" for t in texts]


def draw_panels(rows: Sequence[Sequence[Panel]]) -> Block:
    """Draw panels in rows, each as wide and as high as it needs; rows of one panel stand beside each other."""
    drawn, top, width = list[Markup](), 0.0, 0.0
    blocks = [[_draw(panel) for panel in row] for row in rows]
    for row in _side_by_side(blocks) if all(len(row) == 1 for row in rows) else blocks:
        left, height = 0.0, 0.0
        for block in row:
            drawn.append(element("g", block.drawn, transform=f"translate({left:.2f} {top:.2f})"))
            left += block.width + _GAP
            height = max(height, block.height)
        top, width = top + height + _GAP, max(width, left)
    return Block(join_markup(drawn), width - _GAP, top - _GAP)


def _side_by_side(rows: Sequence[Sequence[Block]]) -> list[list[Block]]:
    """The panels of all rows in their order, as many side by side as a page is wide."""
    found: list[list[Block]] = [[]]
    for (block,) in rows:
        if found[-1] and sum(each.width + _GAP for each in found[-1]) + block.width > PAGE:
            found.append([])
        found[-1].append(block)
    return found


def _draw(panel: Panel) -> Block:
    """Draw a title, the cells, the tokens and names of both axes, and the bar of colours."""
    matrix, values = panel.matrix, panel.matrix.values[panel.channel]
    rows, columns = shorten(matrix.rows), shorten(matrix.columns)
    cell = max(SMALLEST, min(CELL, WIDE / max(len(rows), len(columns))))
    size = min(_SIZE, 0.85 * cell)
    left = _SIZE + 6 + max(text_width(text, size) for text in rows)
    top = 4 + 9.0 * len(panel.title)
    wide, high = cell * len(columns), cell * len(rows)
    below = max(text_width(text, size) for text in columns)
    cells = [
        element(
            "rect", x=left + cell * x, y=top + cell * y, width=cell, height=cell, **_degree(value, panel.most)
        )
        for y, row in enumerate(values.tolist())
        for x, value in enumerate(row)
        if value
    ]
    drawn = [
        *(text_of(line, left, 7 + 9.0 * i, size=7.5, bold=i == 0) for i, line in enumerate(panel.title)),
        *cells,
        element("rect", x=left, y=top, width=wide, height=high, fill="none", stroke="line", stroke_width=0.5),
        *(_text(text, left - 2, top + cell * (y + 0.5), size, 0, **_LABEL) for y, text in enumerate(rows)),
        *(_text(text, left + cell * (x + 0.5), top + high + 2, size, -90, **_LABEL) for x, text in enumerate(columns)),
        _text(matrix.axes[0], _SIZE - 1, top + high / 2, _SIZE, -90, **_AXIS),
        _text(matrix.axes[1], left + wide / 2, top + high + below + 4 + _SIZE, _SIZE, 0, **_AXIS),
        _bar(matrix.share, panel.most, left + wide + 4, top, high),
    ]  # fmt: skip
    title = max((text_width(line, 7.5, bold=i == 0) for i, line in enumerate(panel.title)), default=0)
    numbers = text_width(_number(-panel.most), 6)
    return Block(
        join_markup(drawn), left + max(wide + 4 + _BAR + 2 + numbers, title), top + high + below + 6 + _SIZE
    )


def _degree(value: float, most: float) -> dict[str, object]:
    """The colour of a number: one role above zero, another below, as deep as the number is large."""
    share = min(abs(value) / most, 1.0) if most else 0.0
    return {"fill": "unary" if value > 0 else "binary", "fill_opacity": share}


def _text(text: str, x: float, y: float, size: float, turn: int, **more: object) -> Markup:
    turned = f"rotate({turn} {x:.2f} {y:.2f})" if turn else None
    return element("text", text, x=x, y=y, font_size=size, transform=turned, **more)


def _bar(share: bool, most: float, x: float, y: float, height: float) -> Markup:
    """The bar of colours, from the largest number down to zero or to its negative."""
    height = max(min(height, 90.0), 30.0)
    least = 0.0 if share else -most
    step = height / _STEPS
    drawn = [
        element(
            "rect", x=x, y=y + step * i, width=_BAR, height=step + 0.1,
            **_degree(most - (most - least) * (i + 0.5) / _STEPS, most),
        )
        for i in range(_STEPS)
    ]  # fmt: skip
    marks = [(most, 0.0), (least, height)] if share else [(most, 0.0), (0.0, height / 2), (least, height)]
    drawn.append(
        element("rect", x=x, y=y, width=_BAR, height=height, fill="none", stroke="line", stroke_width=0.3)
    )
    drawn += [
        element(
            "text", _number(number), x=x + _BAR + 2, y=y + place, font_size=6, fill="muted",
            dominant_baseline="hanging" if place == 0 else "auto" if place == height else "central",
        )
        for number, place in marks
    ]  # fmt: skip
    return join_markup(drawn)


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
