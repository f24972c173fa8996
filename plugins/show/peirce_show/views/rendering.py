"""Views as a page to browse and as a picture for papers, and the choice of the matrices in it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from attrs import evolve

from peirce.errors import TaskError, check_known
from peirce_show.pages import page, read_all
from peirce_show.svg import Markup, element, picture, text_of, text_width, truncate
from peirce_show.viewers import Matrix, View
from peirce_show.views.matrices import WIDE, Block, Panel, draw_panels, shorten
from peirce_show.views.texts import draw_text

MOST_PANELS = 40
MOST_NUMBERS = 4_000_000
"""The most numbers of a page, which has six bytes of each."""
LAST, ALL = "last", "all"
_AROUND = 8.0


def select(views: Sequence[View], layer: str, operator: str | None, *, whole: bool) -> list[View]:
    """Views with some of their matrices.

    Args:
        views: the views.
        layer: a layer's name, `last` or `all`.
        operator: operators or their matrices, with commas between them; see `whole` if None.
        whole: whether all of them are taken if none is named; else the weights of attention, or what comes first.

    Raises:
        TaskError: there is no such layer or operator, or too much is left.
    """
    every = [matrix for view in views for matrix in view.matrices]
    if not every:
        return list(views)
    titles = list(dict.fromkeys(matrix.title for matrix in every))
    names = [name.strip() for name in operator.split(",")] if operator else titles
    if operator is None and not whole:
        names = [next((title for title in titles if title.endswith(".weights")), every[0].operator)]
    known = [*dict.fromkeys(matrix.operator for matrix in every), *titles]
    layers = list(dict.fromkeys(matrix.layer for matrix in every))
    for name in names:
        check_known("operator", name, dict.fromkeys(known), TaskError)
    check_known("layer", layer, (*layers, LAST, ALL), TaskError)
    found = [evolve(view, matrices=tuple(_select(view.matrices, layer, names))) for view in views]
    if not any(view.matrices for view in found):
        present = dict.fromkeys(
            matrix.layer for matrix in every if {matrix.operator, matrix.title} & {*names}
        )
        raise TaskError(f"layer {layer} has no {', '.join(names)}; layers with it: {', '.join(present)}")
    numbers = sum(matrix.values.size for view in found for matrix in view.matrices)
    if numbers > MOST_NUMBERS:
        raise TaskError(
            f"the page would have {numbers:,} numbers, and at most {MOST_NUMBERS:,} are kept; give --layer, "
            "--operator, --head, fewer --channels or a shorter text"
        )
    return found


def _select(matrices: Sequence[Matrix], layer: str, names: Sequence[str]) -> Iterable[Matrix]:
    last = {matrix.title: matrix.layer for matrix in matrices}
    for each in matrices:
        wanted = last[each.title] if layer == LAST else each.layer if layer == ALL else layer
        if wanted == each.layer and {each.operator, each.title} & {*names}:
            yield each


def render_picture(views: Sequence[View]) -> str:
    """Views as SVG: their texts with marks, and below them a row of panels for each layer, a column for each view.

    Raises:
        TaskError: there are too many panels.
    """
    blocks = [_draw_answers(view) for view in views if view.answers]
    blocks += [draw_text(view) for view in views if view.labels]
    every = [(view, matrix) for view in views for matrix in view.matrices]
    if len(every) > MOST_PANELS:
        raise TaskError(
            f"the picture would have {len(every)} panels, and at most {MOST_PANELS} are drawn; give --layer or "
            "--operator"
        )
    if every:
        most = _most(matrix for _, matrix in every)
        rows = [
            [
                Panel((matrix.title, *_subtitle(view, matrix)), matrix, 0, most[matrix.title])
                for view, matrix in every
                if matrix.layer == layer
            ]
            for layer in dict.fromkeys(matrix.layer for _, matrix in every)
        ]
        blocks.append(draw_panels(rows))
    drawn, top = list[Markup](), _AROUND
    for block in blocks:
        drawn.append(element("g", block.drawn, transform=f"translate({_AROUND} {top:.2f})"))
        top += block.height + 2 * _AROUND
    width = max(block.width for block in blocks) + 2 * _AROUND
    names = ", ".join(dict.fromkeys(view.name for view in views))
    return picture(
        *drawn, width=width, height=top - _AROUND, title=names, description=_description(views), name="look",
    )  # fmt: skip


def _draw_answers(view: View) -> Block:
    line = truncate(", ".join(" ".join(row) for row in view.answer_rows()[:3]), 7.5, WIDE)
    return Block(text_of(line, 0, 7.5, size=7.5), text_width(line, 7.5), 9.0)


def _most(matrices: Iterable[Matrix]) -> dict[str, float]:
    """By title the largest number of any layer and model, so that a colour means the same number everywhere."""
    most: dict[str, float] = {}
    for each in matrices:
        largest = float(np.abs(each.values[0]).max(initial=0.0))
        most[each.title] = max(largest, most.get(each.title, 0.0))
    return most


def _subtitle(view: View, matrix: Matrix) -> tuple[str, ...]:
    return view.name, f"layer {matrix.layer}, {matrix.channels[0]}"


def _description(views: Sequence[View]) -> str:
    return " ".join(
        f"{view.text!r}: {', '.join(dict.fromkeys(matrix.title for matrix in view.matrices)) or 'its marks'}."
        for view in views
    )


def render_page(views: Sequence[View]) -> str:
    """Views as one page: choose a matrix, a layer, a channel; each cell says its tokens and its number."""
    data = [
        {
            "name": view.name,
            "matrices": [
                {
                    "title": each.title, "layer": each.layer,
                    "rows": shorten(each.rows), "columns": shorten(each.columns),
                    "channels": each.channels, "share": each.share, "axes": each.axes, "values": _packed(each),
                }
                for each in view.matrices
            ],
        }
        for view in views
        if view.matrices
    ]  # fmt: skip
    texts = {
        view.text: _text(view, number) for number, view in enumerate(views)
    }  # models side by side read one
    here = [Path(__file__).parent]
    notes = [element("p", f"Note: {note}.", class_="note") for view in views for note in view.notes]
    return page(
        ", ".join(dict.fromkeys(view.name for view in views)),
        *texts.values(), *map(_answer_table, views), *notes, Markup(read_all(here, ".html") if data else ""),
        style=read_all(here, ".css"),
        script=read_all(here, ".js") if data else "",
        data=data or None,
    )  # fmt: skip


def _answer_table(view: View) -> Markup:
    if not view.answers:
        return Markup("")
    head = (element("th", name, scope="col") for name in view.answers[0])
    rows = (element("tr", *(element("td", cell) for cell in row)) for row in view.answer_rows())
    return element(
        "table",
        element("caption", view.name),
        element("thead", element("tr", *head)),
        element("tbody", *rows),
    )


def _text(view: View, number: int) -> Markup:
    if not view.labels:
        return element("p", view.text, class_="text")
    block = draw_text(view)
    return picture(
        block.drawn, width=block.width, height=block.height, title=view.name, description=view.text,
        name=f"text-{number}",
    )  # fmt: skip


def _packed(matrix: Matrix) -> str:
    """The numbers as little-endian float32 in base64, which the script reads without a change."""
    return base64.b64encode(matrix.values.astype("<f4").tobytes()).decode()
