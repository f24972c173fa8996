"""Reading the model of a folder or of a spec, whichever is given; torch is imported only then."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from peirce.errors import ModelFileError
from peirce.registry import Registry
from peirce.spec import is_path

if TYPE_CHECKING:
    from peirce.model import Model


def read_model(source: str | os.PathLike[str], registry: Registry | None = None) -> Model:
    """The model of a saved directory, or of a spec (a `.toml` path or a ready name) with random weights of seed 0.

    Raises:
        ModelFileError, SpecError: the directory or the spec cannot be used.
    """
    from peirce.compose.building import build
    from peirce.compose.loading import load

    if is_saved(source):
        return load(os.fspath(source), registry=registry)
    return build(os.fspath(source), seed=0, registry=registry)


def is_saved(source: str | os.PathLike[str]) -> bool:
    """Whether a model's source is a saved directory rather than a spec.

    Raises:
        ModelFileError: it is a path, and nothing is there.
    """
    saved = Path(source).is_dir()
    if not saved and is_path(source) and Path(source).suffix != ".toml":
        raise ModelFileError(
            f"there is no saved model at {os.fspath(source)}; `Model.save` and `peirce train` write one. A spec is a "
            "path that ends in .toml, or the name of a ready spec"
        )
    return saved
