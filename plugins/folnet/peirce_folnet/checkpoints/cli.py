"""`peirce import folnet`: models of published checkpoints, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import Json, Overwrite, print_new_model, print_result, refuse_existing
from peirce.errors import ModelFileError


def folnet(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG", help="The published JSON configuration.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Argument(metavar="WEIGHTS", help="Its tensors: a torch or a safetensors file.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where the result goes.")
    ] = None,
    to_published: Annotated[
        Path | None,
        typer.Option(
            "--to-published", metavar="MODEL", help="Write this saved model in the published form instead."
        ),
    ] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Import a published FOLNet checkpoint, or write a model as one."""
    if output is None:
        raise ModelFileError("say where the result goes, with -o DIR")
    if to_published is not None:
        if config is not None:
            raise ModelFileError("--to-published takes the saved model itself; leave CONFIG and WEIGHTS out")
        refuse_existing(output, ("config.json", "weights.safetensors"), overwrite)
        from peirce_folnet.checkpoints.folnet import export_folnet

        export_folnet(to_published, output)
        print_result(
            json, {"config": str(output / "config.json"), "weights": str(output / "weights.safetensors")}
        )
        return
    if config is None or weights is None:
        raise ModelFileError("an import needs two files: peirce import folnet CONFIG WEIGHTS -o DIR")
    refuse_existing(output, ("spec.toml",), overwrite)
    from peirce_folnet.checkpoints.folnet import import_folnet

    model = import_folnet(config, weights, output)
    print_new_model(json, model, output)
