"""`peirce import transformers`: a Peirce model of a BERT, a GPT-2 or a Llama."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from peirce.commands import Json, made, vacant
from peirce.errors import ModelFileError


def transformers(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="What save_pretrained wrote: a BERT, a GPT-2 or a Llama.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where the saved model goes.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in DIR.")] = False,
    json: Json = False,
) -> None:
    """Import a BERT, GPT-2 or Llama that transformers saved."""
    if output is None:
        raise ModelFileError("say where the model goes, with -o DIR")
    vacant(output, ("spec.toml",), overwrite)
    from peirce_hf.checkpoints.importing import import_transformers

    model = import_transformers(folder, output)
    parameters = sum(p.numel() for p in model.parameters())
    made(json, {"model": str(output), "name": model.spec.name, "parameters": parameters})
