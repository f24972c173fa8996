"""`peirce import tpru`: a model of published weights of the unit; `peirce roles`: which roles a model binds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from peirce.commands import Json, as_json, made, vacant
from peirce.errors import TaskError, escaped

DIGITS = 6


def tpru(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The published settings, as JSON.")],
    weights: Annotated[
        Path, typer.Argument(metavar="WEIGHTS", help="Its tensors: a torch or a safetensors file.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the model goes.", show_default=False)
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in DIR.")] = False,
    json: Json = False,
) -> None:
    """Import published weights of the recurrent unit TPRU; the states are the output `unary`."""
    vacant(output, ("spec.toml",), overwrite)
    from peirce_tpru.published import import_tpru

    model = import_tpru(config, weights, output)
    parameters = sum(p.numel() for p in model.parameters())
    made(json, {"model": str(output), "name": model.spec.name, "parameters": parameters})


def roles(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a trained model.")],
    text: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT",
            help="A text, or two of a pair; token ids with spaces between them where the model has no tokenizer.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The picture; .svg, .png or .pdf says its format. roles.svg if absent, or none with --json.",
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many of the strongest roles are shown.")] = 8,
    json: Json = False,
) -> None:
    """Show which roles each token of a text binds in a model with the recurrence `tpru`."""
    from peirce_tpru.roles import check_picture, draw, read_roles

    if len(text) > 2:
        raise TaskError(f"{len(text)} texts are given; give one, or two of a pair")
    path = output if output is not None or json else Path("roles.svg")
    if path is not None:
        check_picture(path)
    found = read_roles(model, text)
    if path is not None:
        draw(found, count, path, " ".join(text))
    if not json:
        typer.echo(f"{path}: {len(found.tokens)} tokens, {len(found.bindings)} recurrences")
        for binding in found.bindings:
            best = ", ".join(map(str, binding.strongest(count)))
            typer.echo(f"{escaped(binding.name)}: the strongest roles are {best}")
        return
    recurrences = [
        {
            "name": binding.name,
            "roles": binding.shares.shape[1],
            "strongest": [
                [
                    {"role": int(r), "share": round(float(row[r]), DIGITS)}
                    for r in (-row).argsort(kind="stable")[:count]
                ]
                for row in binding.shares
            ],
        }
        for binding in found.bindings
    ]
    file = None if path is None else str(path)
    as_json("peirce.roles/1", model=str(model), file=file, tokens=list(found.tokens), recurrences=recurrences)
