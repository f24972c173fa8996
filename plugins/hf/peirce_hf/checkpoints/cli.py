"""`peirce import transformers`: a Peirce model of a BERT, a GPT-2 or a Llama."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import Json, NewModel, Overwrite, print_new_model, refuse_existing


def transformers(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="What save_pretrained wrote: a BERT, a GPT-2 or a Llama.")
    ],
    output: NewModel,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Import a BERT, GPT-2 or Llama that transformers saved."""
    refuse_existing(output, ("spec.toml",), overwrite)
    from peirce_hf.checkpoints.importing import import_transformers

    model = import_transformers(folder, output)
    print_new_model(json, model, output)
