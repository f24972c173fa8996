"""`peirce import`: models from the checkpoints that others published, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from peirce.commands import Json, as_json
from peirce.errors import ModelFileError

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True
)


@app.callback()
def checkpoints() -> None:
    """Make a model of a checkpoint that others published."""


@app.command()
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
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in DIR.")] = False,
    json: Json = False,
) -> None:
    """Import a published FOLNet checkpoint, or write a model as one."""
    if output is None:
        raise ModelFileError("say where the result goes, with -o DIR")
    if to_published is not None:
        if config is not None:
            raise ModelFileError("--to-published takes the saved model itself; leave CONFIG and WEIGHTS out")
        _free(output, ("config.json", "weights.safetensors"), overwrite)
        from peirce_folnet.checkpoints.folnet import export_folnet

        export_folnet(to_published, output)
        _say(json, {"config": str(output / "config.json"), "weights": str(output / "weights.safetensors")})
        return
    if config is None or weights is None:
        raise ModelFileError("an import needs two files: peirce import folnet CONFIG WEIGHTS -o DIR")
    _free(output, ("spec.toml",), overwrite)
    from peirce_folnet.checkpoints.folnet import import_folnet

    model = import_folnet(config, weights, output)
    parameters = sum(p.numel() for p in model.parameters())
    _say(json, {"model": str(output), "name": model.spec.name, "parameters": parameters})


def _free(output: Path, names: tuple[str, ...], overwrite: bool) -> None:
    """Refuse a folder that holds what would be written, unless it may be replaced."""
    there = [name for name in names if (output / name).exists()]
    if there and not overwrite:
        raise ModelFileError(
            f"{output} holds {' and '.join(there)} already; choose another folder, or give --overwrite to replace it"
        )


def _say(json: bool, result: dict[str, object]) -> None:
    if json:
        as_json("peirce.import/1", **result)
        return
    for key, value in result.items():
        typer.echo(f"{key}: {value}")
