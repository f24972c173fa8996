"""`peirce draw` and `peirce compare`: pictures of models, and models side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from attrs import asdict

from peirce.commands import Json, print_json, print_table
from peirce.errors import InputError
from peirce.registry import default_registry
from peirce_show.files import check_format, save

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Where the .svg, .html or .png picture goes."),
]


def draw(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A spec's path or ready name, a saved model's folder, or an exported file."
        ),
    ],
    output: Output = None,
    diff: Annotated[
        str | None,
        typer.Option("--diff", metavar="MODEL", help="Another model; what differs from it is marked."),
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Print the picture as text.")] = False,
) -> None:
    """Draw what a model is made of: branches, layers, operators and their arrows, positions, heads, plug-ins.

    The picture comes from the plan; nothing is computed. In an .html file layers fold and unfold.
    """
    if output is None and not text:
        raise InputError("give a file for the picture with -o, or --text to print it")
    if output is not None:
        check_format(output)
    from peirce_show.contents import compare_contents, contents
    from peirce_show.drawing import render_page, render_svg
    from peirce_show.terminal import text_picture

    registry = default_registry()
    shown = contents(model, registry)
    if diff is not None:
        shown = compare_contents(shown, contents(diff, registry))
    if text:
        for line in text_picture(shown):
            typer.echo(line)
    if output is not None:
        html = render_page(shown) if output.suffix.lower() == ".html" else None
        save(output, render_svg(shown), html)
        typer.echo(f"written to {output}")


def compare(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL", help="Specs, saved models' folders or exported files, two or more."),
    ],
    output: Output = None,
    batch: Annotated[int, typer.Option(min=1, help="Examples of the forward pass.")] = 1,
    length: Annotated[
        int | None, typer.Option(min=1, help="Tokens of each; 128, or as many as all of them allow.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare models: parameters, operations, bytes, inputs and outputs; and how trained ones learnt and do."""
    if len(models) < 2:
        raise InputError("give two models or more to compare")
    if output is not None:
        check_format(output)
    from peirce_show.comparison import compare_models, comparison_page, comparison_picture, rows

    found = compare_models(models, default_registry(), batch=batch, length=length)
    if json:
        print_json("peirce.compare/1", models=[asdict(each) for each in found])
    else:
        print_table(["", *(each.name for each in found)], rows(found))
    if output is not None:
        html = comparison_page(found) if output.suffix.lower() == ".html" else None
        save(output, comparison_picture(found), html)
        if not json:
            typer.echo(f"written to {output}")
