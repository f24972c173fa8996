"""`peirce import edge-transformer`: a Peirce model of a published Edge Transformer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from peirce.commands import Json, made, vacant
from peirce.errors import ModelFileError


def edge_transformer(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The published settings, as JSON.")],
    weights: Annotated[
        Path, typer.Argument(metavar="WEIGHTS", help="Its tensors: a torch or a safetensors file.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where the saved model goes.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in DIR.")] = False,
    json: Json = False,
) -> None:
    """Import a published Edge Transformer."""
    if output is None:
        raise ModelFileError("say where the model goes, with -o DIR")
    vacant(output, ("spec.toml",), overwrite)
    from peirce_relations.checkpoints.edge_transformer import import_edge_transformer

    model = import_edge_transformer(config, weights, output)
    parameters = sum(p.numel() for p in model.parameters())
    made(json, {"model": str(output), "name": model.spec.name, "parameters": parameters})
