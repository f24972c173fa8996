"""Attention as heat maps side by side, a column of panels for each model, drawn by matplotlib."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from peirce.errors import TaskError

from peirce_kg.attention.maps import Floats
from peirce_kg.queries.drawing import legible

LONGEST = 18
"""Characters of a token that are shown."""
LARGEST = 4000.0
"""Square inches of a picture: beyond, it would take gigabytes."""
_CELL, _CHARACTER, _AROUND, _BAR = 0.24, 0.075, 0.75, 1.0
"""Inches of a cell, of a character on an axis, of what else is around a panel, and of the colour bar."""


class Column(NamedTuple):
    """What is drawn of one model: maps [x, a] from top to bottom, the title of each, and the texts of its tokens."""

    titles: tuple[str, ...]
    tokens: tuple[str, ...]
    maps: tuple[Floats, ...]


def figure_of(columns: Sequence[Column]) -> Any:
    """Maps of attention as a matplotlib figure: rows attend, columns are attended to.

    Args:
        columns: the models, from left to right; all share one scale of colours.

    Raises:
        TaskError: the picture would be too large.
    """
    from matplotlib.figure import Figure

    widths = [_width(c) for c in columns]
    rows = max(len(c.maps) for c in columns)
    size = sum(widths) + _BAR, rows * max(widths)
    if size[0] * size[1] > LARGEST:
        raise TaskError(
            f"the picture would be {size[0]:,.0f} by {size[1]:,.0f} inches large; give fewer models, one layer or a "
            "shorter query"
        )
    figure = Figure(figsize=size, layout="compressed")
    panels = figure.subplots(rows, len(columns), squeeze=False, width_ratios=widths)
    most = max(float(each.max()) for c in columns for each in c.maps)
    image: Any = None
    for column, own in zip(columns, panels.T, strict=True):
        for row, panel in enumerate(own):
            if row < len(column.maps):
                image = _panel(panel, column, row, most)
            else:
                panel.set_axis_off()
    figure.colorbar(image, ax=panels, label="attention weight", shrink=0.8, aspect=30)
    return figure


def _panel(panel: Any, column: Column, row: int, most: float) -> Any:
    """One map, the texts of tokens on both axes."""
    image = panel.imshow(column.maps[row], cmap="Blues", vmin=0.0, vmax=most or 1.0)
    texts, places = shown(column.tokens), range(len(column.tokens))
    panel.set_xticks(places, texts, rotation=90, fontsize=8, parse_math=False)
    panel.set_yticks(places, texts, fontsize=8, parse_math=False)
    title = "\n".join(map(legible, column.titles[row].splitlines()))
    panel.set_title(title, fontsize=9, parse_math=False)
    panel.set_xlabel("attended to", fontsize=8)
    panel.set_ylabel("attends", fontsize=8)
    return image


def shown(tokens: Sequence[str]) -> list[str]:
    """The texts of tokens on an axis: of a path its last part, unless another has the same; long ones are cut."""
    last = {token: re.split(r"[/#]", token.rstrip("/#"))[-1] or token for token in tokens}
    parts, end = list(last.values()), LONGEST // 2
    texts = [legible(last[token] if parts.count(last[token]) == 1 else token) for token in tokens]
    return [t if len(t) <= LONGEST else f"{t[: LONGEST - end - 1]}…{t[-end:]}" for t in texts]


def _width(column: Column) -> float:
    """Inches that a panel takes with the texts beside and above it."""
    beside = _AROUND + _CHARACTER * max(map(len, shown(column.tokens)))
    above = max(len(line) for title in column.titles for line in title.splitlines())
    return max(_CELL * len(column.tokens), _CHARACTER * above) + beside
