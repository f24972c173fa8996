"""The command `peirce look`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from peirce.commands import Json, print_json

if TYPE_CHECKING:
    from peirce_show.viewers import View

SCHEMA = "peirce.look/1"
DIGITS = 6


def look(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="The folder of a trained model; or a view that needs none: `logic`, the logical relations of a text.",
        ),
    ],
    text: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT",
            help="What the model reads: a text, or two of a pair, or a query. Token ids with spaces between them where "
            "it has no tokenizer. For a model with a decoder, a second text: what it has written.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The page of all matrices, .html, or a picture of some, .svg or .png.",
            show_default=False,
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A layer, counted from 1 (0 is what the first is given), `last` or `all`. If absent, `all` in a page, "
            "`last` in a picture.",
        ),
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Operators, such as `join`, or their matrices, such as `join.weights`; `atoms` are the relations "
            "between layers. If absent, all in a page, and in a picture the weights of attention if there are any.",
        ),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(
            min=1, help="A head or channel, counted from 1. If absent their mean, and the first ones."
        ),
    ] = None,
    channels: Annotated[
        int, typer.Option(min=0, help="How many heads or channels a page has beside their mean.")
    ] = 8,
    beside: Annotated[
        list[Path] | None,
        typer.Option(metavar="MODEL", help="Another model that reads the same, drawn beside. Repeatable."),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which view, where several show the model: roles, queries, ..."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="An option of the view, such as count=4. Repeatable."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show what a trained model predicts of a text, and what it computes between the tokens: attention, kernels, atoms,
    roles, relations.
    """
    from peirce.errors import InputError, escape_controls
    from peirce_show.files import check_format, save
    from peirce_show.views.collection import ViewOptions, collect_views
    from peirce_show.views.rendering import render_page, render_picture, select

    if output is None and not json:
        raise InputError("give a file with -o, such as -o look.html, or --json")
    if output is not None:
        check_format(output)
    options = ViewOptions(channel=head, channels=channels, view=view, settings=tuple(settings or ()))
    models = (model, *map(str, beside or ()))
    views = [each for name in models for each in collect_views(name, text, options)]
    page = output is None or output.suffix.lower() == ".html"
    views = select(views, layer or ("all" if page else "last"), operator, whole=page)
    if output is not None:
        save(output, "" if page else render_picture(views), render_page(views) if page else None)
    if json:
        file = None if output is None else str(output)
        print_json(SCHEMA, file=file, views=[_to_json(each) for each in views])
        return
    for each in views:
        titles = (
            ", ".join(dict.fromkeys(matrix.title for matrix in each.matrices)) or f"{len(each.marks)} marks"
        )
        typer.echo(f"{output}: {escape_controls(each.name)}: {escape_controls(titles)}")
        for row in each.answer_rows():
            typer.echo(f"  {escape_controls('  '.join(row))}")
        for note in each.notes:
            typer.echo(f"note: {escape_controls(note)}", err=True)


def _to_json(view: View) -> dict[str, object]:
    """A view as JSON has it."""
    from attrs import asdict

    matrices = [
        {**asdict(each, recurse=False), "values": each.values.astype(float).round(DIGITS).tolist()}
        for each in view.matrices
    ]
    return {
        "name": view.name, "text": view.text, "notes": list(view.notes),
        "answers": [dict(row) for row in view.answers],
        "marks": [asdict(mark) for mark in view.marks], "matrices": matrices,
    }  # fmt: skip
