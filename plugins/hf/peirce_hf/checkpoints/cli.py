"""`peirce import transformers`: a Peirce model of a published checkpoint, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import Json, NewModel, Overwrite, print_new_model, print_result, refuse_existing
from peirce.errors import InputError


def transformers(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="What save_pretrained wrote; with --back, a saved model."),
    ],
    output: NewModel,
    back: Annotated[
        bool, typer.Option("--back", help="Write an imported model as transformers saves it.")
    ] = False,
    count_padding: Annotated[
        bool,
        typer.Option(
            "--count-padding", help="Count padding as places, as the class does without position_ids."
        ),
    ] = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Import a model that transformers saved, as a spec of parts."""
    if back:
        if count_padding:
            raise InputError(
                "--count-padding is of an import, and --back writes the model as it was imported; leave one of them out"
            )
        refuse_existing(output, ("config.json", "model.safetensors"), overwrite)
        from peirce_hf.checkpoints.importing import export_transformers

        export_transformers(folder, output)
        print_result(
            json, {"config": str(output / "config.json"), "weights": str(output / "model.safetensors")}
        )
        return
    refuse_existing(output, ("spec.toml",), overwrite)
    from peirce_hf.checkpoints.importing import import_transformers

    model = import_transformers(folder, output, count_padding=count_padding)
    print_new_model(json, model, output)
