"""`peirce import tpru`: a model of published weights of the unit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from peirce.commands import Json, made, vacant


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
