"""`peirce import ultra`: a Peirce model of a published ULTRA or UltraQuery."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from peirce.commands import Json, made, vacant
from peirce.errors import ModelFileError


def ultra(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="WEIGHTS", help="Its tensors: a safetensors file, or a torch file of a state dict."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where the saved model goes.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in DIR.")] = False,
    json: Json = False,
) -> None:
    """Import a published ULTRA or UltraQuery, which answers on any graph."""
    if output is None:
        raise ModelFileError("say where the model goes, with -o DIR")
    vacant(output, ("spec.toml",), overwrite)
    from peirce_kg.ultra.checkpoint import read_ultra

    model = read_ultra(checkpoint, output.resolve().name)
    model.save(output)
    parameters = sum(p.numel() for p in model.parameters())
    threshold = model.spec.options["threshold"]
    made(
        json,
        {"model": str(output), "name": model.spec.name, "parameters": parameters, "threshold": threshold},
    )
