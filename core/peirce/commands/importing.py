"""What the commands of the group `peirce import` share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer

from peirce.commands.show import as_json
from peirce.errors import ModelFileError


def vacant(output: Path, names: tuple[str, ...], overwrite: bool) -> None:
    """Refuse a folder that holds what would be written, unless it may be replaced.

    Raises:
        ModelFileError: it holds some of the names.
    """
    there = [name for name in names if (output / name).exists()]
    if there and not overwrite:
        raise ModelFileError(
            f"{output} holds {' and '.join(there)} already; choose another folder, or give --overwrite to replace it"
        )


def made(json: bool, result: Mapping[str, object]) -> None:
    """Print what an import has made."""
    if json:
        as_json("peirce.import/1", **result)
        return
    for key, value in result.items():
        typer.echo(f"{key}: {value}")
