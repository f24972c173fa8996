"""`peirce import edge-transformer`: a Peirce model of a published Edge Transformer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import Json, NewModel, Overwrite, print_new_model, refuse_existing


def edge_transformer(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The published settings, as JSON.")],
    weights: Annotated[
        Path, typer.Argument(metavar="WEIGHTS", help="Its tensors: a torch or a safetensors file.")
    ],
    output: NewModel,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Import a published Edge Transformer."""
    refuse_existing(output, ("spec.toml",), overwrite)
    from peirce_relations.checkpoints.edge_transformer import import_edge_transformer

    model = import_edge_transformer(config, weights, output)
    print_new_model(json, model, output)
