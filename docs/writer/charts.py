"""Charts of the tables that stand on pages of results: a chart shows a table's figures, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from peirce_show.svg import Markup, element, join_markup, picture, text_width

COLOURS = ("unary", "binary", "place", "head", "gone", "changed", "muted")
WIDTH, SIZE = 300.0, 8.0
"""The width of a picture and the size of its letters: legible on a telephone, where it is as wide as the screen."""


class Table(NamedTuple):
    """A table of a page: its headings, and its rows with their values, each a mean, a lowest and a highest."""

    columns: tuple[str, ...]
    rows: dict[str, tuple[tuple[float, float, float] | None, ...]]


def table(page: Path, how: str) -> Table:
    """The table of a page that a comment with `how` makes; columns and rows without a figure are left out."""
    text = page.read_text(encoding="utf-8")
    lines = text[text.index(f"<!-- table: {how}") :].split("<!-- end of table -->")[0].splitlines()
    heads, _, *body = (
        [cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines if line[:1] == "|"
    )
    kept = [i for i, head in enumerate(heads) if i and head not in ("seeds", "seed", "types")]
    rows: dict[str, tuple[tuple[float, float, float] | None, ...]] = {}
    for cells in body:
        label = cells[0].strip("`")
        if label in rows:
            label += f", {cells[heads.index('seeds')]}"
        rows[label] = tuple(_values(cells[i]) for i in kept)
    return Table(tuple(heads[i] for i in kept), {name: row for name, row in rows.items() if any(row)})


def _values(cell: str) -> tuple[float, float, float] | None:
    found = [float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*\.?\d*", cell)]
    return (found[0], found[-2] if len(found) > 2 else found[0], found[-1]) if found else None


def chart(shown: Table, *, title: str, unit: str, name: str) -> Markup:
    """A table as lines over numbered columns, or as dots; bars are from the lowest to the highest seed.

    Args:
        shown: the table.
        title: what it shows, for readers and screen readers.
        unit: what its figures are, for the axis.
        name: an id that no other picture of the page has.
    """
    values = [value for row in shown.rows.values() for one in row if one for value in one]
    top = 100.0 if max(values) <= 100 and max(values) > 1.5 else max(values)
    draw = _lines if all(column.isdigit() for column in shown.columns) else _dots
    content, height = draw(shown, top, unit)
    rows = "; ".join(
        f"{row}: "
        + ", ".join(
            f"{column} {cell[0]:g}" for column, cell in zip(shown.columns, cells, strict=True) if cell
        )
        for row, cells in shown.rows.items()
    )
    return picture(
        content, width=WIDTH, height=height, title=title, description=f"{unit}. {rows}.", name=name
    )


def _text(text: object, x: float, y: float, anchor: str = "start", fill: str = "ink") -> Markup:
    return element("text", text, x=x, y=y, fill=fill, font_size=SIZE, text_anchor=anchor)


def _lines(shown: Table, top: float, unit: str) -> tuple[Markup, float]:
    left, right, above, below = 24.0, WIDTH - 8, 22.0, 132.0
    step = (right - left - 12) / (len(shown.columns) - 1)

    def at(i: int, value: float) -> tuple[float, float]:
        return left + 6 + i * step, below - (below - above) * value / top

    parts = [_text(unit, 2, 9, fill="muted")]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        y = at(0, tick * top)[1]
        parts.append(
            element(
                "line", x1=left, x2=right, y1=y, y2=y, stroke="line", stroke_opacity=0.3, stroke_width=0.5
            )
        )
        parts.append(_text(f"{tick * top:g}", left - 3, y + 2.5, "end", "muted"))
    parts += [_text(head, at(i, 0)[0], below + 11, "middle", "muted") for i, head in enumerate(shown.columns)]
    for colour, cells in zip(COLOURS, shown.rows.values(), strict=False):
        points = [(at(i, cell[0]), cell) for i, cell in enumerate(cells) if cell]
        line = " ".join(f"{x:.1f},{y:.1f}" for (x, y), _ in points)
        parts.append(element("polyline", points=line, fill="none", stroke=colour, stroke_width=1.6))
        for (x, y), (_, low, high) in points:
            parts.append(_range(x, at(0, low)[1], x, at(0, high)[1], colour))
            parts.append(element("circle", cx=x, cy=y, r=2.1, fill=colour))
    return join_markup([*parts, *_legend(shown.rows, below + 24)]), below + 20 + 11 * len(shown.rows)


def _dots(shown: Table, top: float, unit: str) -> tuple[Markup, float]:
    left = min(130.0, max(text_width(row, SIZE) for row in shown.rows) + 6)
    right, y = WIDTH - 22, 24.0
    parts = [_text(unit, 2, 9, fill="muted")]
    for tick in (0, 0.5, 1):
        parts.append(_text(f"{tick * top:g}", left + tick * (right - left), 19, "middle", "muted"))
    start = y
    for row, cells in shown.rows.items():
        label = row if text_width(row, SIZE) <= left else row[: int(left / SIZE * 1.9)] + "…"
        parts.append(_text(label, 2, y + 3 * len(cells) + 1.5))
        for colour, cell in zip(COLOURS, cells, strict=False):
            y += 6
            if cell:
                x, low, high = (left + (right - left) * value / top for value in cell)
                parts += [
                    _range(low, y - 1, high, y - 1, colour),
                    element("circle", cx=x, cy=y - 1, r=2.3, fill=colour),
                ]
        y += 5
    grid = [
        element("line", x1=x, x2=x, y1=start, y2=y, stroke="line", stroke_opacity=0.3, stroke_width=0.5)
        for x in (left, (left + right) / 2, right)
    ]
    named = shown.columns[: len(COLOURS)]
    return join_markup([*grid, *parts, *_legend(named, y + 8)]), y + 6 + 11 * len(named)


def _range(x1: float, y1: float, x2: float, y2: float, colour: str) -> Markup:
    return element("line", x1=x1, x2=x2, y1=y1, y2=y2, stroke=colour, stroke_width=1.2, stroke_opacity=0.6)


def _legend(names: Iterable[str], y: float) -> list[Markup]:
    found = []
    for i, (colour, name) in enumerate(zip(COLOURS, names, strict=False)):
        found += [element("circle", cx=8, cy=y + 11 * i - 3, r=2.6, fill=colour), _text(name, 15, y + 11 * i)]
    return found


__all__ = ["Table", "chart", "table"]
