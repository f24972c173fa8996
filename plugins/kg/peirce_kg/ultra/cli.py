"""`peirce import ultra`: a Peirce model of a published ULTRA or UltraQuery."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from peirce.commands import Json, NewModel, Overwrite, made_model, vacant


def ultra(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="WEIGHTS", help="Its tensors: a safetensors file, or a torch file of a state dict."
        ),
    ],
    output: NewModel,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Import a published ULTRA or UltraQuery, which answers on any graph."""
    vacant(output, ("spec.toml",), overwrite)
    from peirce_kg.ultra.checkpoint import read_ultra

    model = read_ultra(checkpoint, output.resolve().name)
    model.save(output)
    made_model(json, model, output, threshold=model.spec.options["threshold"])
