"""The diagram of an operator: which cells of which branch feed which, as its typing and its readings say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from peirce.parts import Branch, Dims, PureOperator, Reader, RecurrentOperator, Writer, axes_of
from peirce.spec import structure_value
from peirce_show.files import check_format, save
from peirce_show.svg import Markup, element, join_markup, picture, text_of, text_width

CELL, TOKENS = 9.0, 4
"""The size of a cell in points, and how many tokens a diagram has."""
_AT = {"x": (1,), "y": (2,), "a": tuple(range(TOKENS)), "t": (0, 1)}
"""Which tokens an axis stands for: the row x, the column y, every a, and in a recurrence t, all up to x."""
_ROLES: Mapping[str, tuple[str, str]] = {"U": ("unary", "properties"), "B": ("binary", "relations")}
_DIMS = Dims(
    layers=1, unary=24, binary=12, heads=2, head_size=4, feedforward_unary=48, feedforward_binary=24, recurrent=24,
    vocabulary=9,
)  # fmt: skip
_RULES = {
    "reduce": "for each {out}, over every a that x may attend to",
    "pairwise": "for each pair (x, y) in the scope, from its own atoms",
    "none": "for each token, from its own atoms",
    "causal": "token by token, from the state after those before",
}


@frozen
class Tile:
    """A branch in a diagram: the cells at `axes`, each pair of letters one way through it, are read or written."""

    name: str
    branch: Branch
    axes: tuple[str, ...]
    channels: str = ""

    def __str__(self) -> str:
        return " and ".join(f"{self.name}({', '.join(axes).replace('t', '≤ x')})" for axes in self.axes)


def tiles(operator: type[Any]) -> tuple[list[Tile], list[Tile]]:
    """What an operator reads, and what it writes, as its readings say; else as its typing and its mask contract say.

    Raises:
        PlanError: it refuses the sizes of diagrams.
    """
    part: Any = operator  # the class has Options, which the contract does not declare
    if issubclass(operator, PureOperator):
        instance = part(structure_value(part.Options, part.example), _DIMS)
        ends: dict[str, Reader | Writer] = {**instance.readings(), "u": instance.output()}
        found = [Tile(n, e.branch, (axes_of(instance, e),), ", ".join(e.shape)) for n, e in ends.items()]
        return found[:-1], found[-1:]
    written, _, read = operator.typing.partition(" <- ")
    if issubclass(operator, RecurrentOperator):
        return [Tile("u", "U", ("t",))], [Tile("u", "U", ("x",))]
    pairs = {"reduce": ("xa",), "pairwise": ("xy", "yx")}.get(operator.scope_rule, ("xy",))
    tokens = ("a",) if operator.scope_rule == "reduce" else ("x",)
    reads: list[Tile] = [Tile("u", b, tokens if b == "U" else pairs) for b in ("U", "B") if b in read]
    writes: list[Tile] = [Tile("u", b, ("x",) if b == "U" else ("xy",)) for b in ("U", "B") if b in written]
    return reads, writes


def save_operator(operator: type[Any], path: Path) -> None:
    """Draw an operator into a file; see `operator_diagram`.

    Raises:
        TaskError: the file's suffix is not that of a picture, or its folder is missing.
    """
    check_format(path, (".svg", ".png"))
    save(path, operator_diagram(operator))


def operator_diagram(operator: type[Any]) -> str:
    """Draw which cells of which branch an operator reads, and which it writes, as SVG.

    Args:
        operator: the class of an operator, a plug-in's too.

    Raises:
        PlanError: it refuses the sizes of diagrams.
    """
    reads, writes = tiles(operator)
    x, drawn = 12.0, list[Markup]()
    between = "×" if issubclass(operator, PureOperator) else "and"
    for sides, sign in ((reads, between), (writes, "and")):
        for i, tile in enumerate(sides):
            if i or sides is writes:
                shown = sign if i else "→"
                width = text_width(shown, 9) + 6
                drawn.append(text_of(shown, x + width / 2, 33 + CELL * TOKENS / 2, size=9, anchor="middle"))
                x += width
            wide = _width(tile)
            drawn.append(element("g", _tile(tile, wide), transform=f"translate({x:g} 16)"))
            x += wide
    names = [
        " × ".join(map(str, reads)) if between == "×" else ", ".join(map(str, reads)),
        ", ".join(map(str, writes)),
    ]
    rule = _RULES[operator.scope_rule].format(out=" and ".join(writes[0].axes[0]))
    title = f"{operator.name}: {operator.typing}"
    width = max(x + 6, text_width(rule, 6) + 12, text_width(title, 8, bold=True) + 12)
    foot = 16 + 24 + CELL * TOKENS + 17
    texts = [
        text_of(title, 6, 11, size=8, bold=True),
        text_of(f"{names[1]} ← {names[0]}", 6, foot + 8, size=6.5, room=width - 8),
        text_of(rule, 6, foot + 16, fill="muted"),
    ]
    description = f"{names[1]} from {names[0]}, {rule}."
    return picture(
        *texts,
        *drawn,
        width=width,
        height=foot + 20,
        title=f"Operator {title}",
        description=description,
        name=operator.name,
    )


def _width(tile: Tile) -> float:
    grid = CELL * (TOKENS if tile.branch == "B" else 1)
    below = f"{tile.name}, {_ROLES[tile.branch][1]}"
    return max(grid + 16, *(text_width(each, 6) + 4 for each in (below, f"[{tile.channels}]")))


def _tile(tile: Tile, wide: float) -> Markup:
    role, what = _ROLES[tile.branch]
    columns = TOKENS if tile.branch == "B" else 1
    left, top = (wide - CELL * columns) / 2, 14.0
    shades: dict[tuple[int, int], float] = {}
    for axes in tile.axes:
        for i in _AT[axes[0]]:
            for j in _AT[axes[1]] if tile.branch == "B" else (0,):
                a = dict(zip(axes, (i, j), strict=False)).get("a")
                shades[i, j] = 1.0 if a is None else 0.3 + 0.7 * a / (TOKENS - 1)
    drawn = [
        element("rect", x=left + CELL * j, y=top + CELL * i, width=CELL, height=CELL, stroke="line", stroke_width=0.5,
                fill=role if (i, j) in shades else "paper", fill_opacity=shades.get((i, j)))
        for i in range(TOKENS) for j in range(columns)
    ]  # fmt: skip
    rows, across = tile.axes[0][:1], tile.axes[0][1:]
    row = sum(_AT[rows]) / len(_AT[rows])
    shown = rows.replace("t", "≤ x")
    drawn.append(text_of(shown, left - 3, top + CELL * (row + 0.5) + 2, anchor="end", fill=role))
    if across:
        column = sum(_AT[across]) / len(_AT[across])
        drawn.append(text_of(across, left + CELL * (column + 0.5), top - 2.5, anchor="middle", fill=role))
    below = top + CELL * TOKENS
    drawn.append(text_of(tile.name, wide / 2, below + 9, size=6.5, bold=True, anchor="middle"))
    drawn.append(text_of(what, wide / 2, below + 16, fill=role, anchor="middle"))
    if tile.channels:
        drawn.append(text_of(f"[{tile.channels}]", wide / 2, below + 23, fill="muted", anchor="middle"))
    return join_markup(drawn)
