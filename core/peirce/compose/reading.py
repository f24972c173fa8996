"""Reading the model of a folder or of a spec, whichever is given; torch is imported only then."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from peirce.errors import ModelFileError, unknown
from peirce.files import near_names
from peirce.model import PROVENANCE
from peirce.registry import Registry, ready_specs
from peirce.spec import is_path

if TYPE_CHECKING:
    from peirce.model import Model


def read_model(source: str | os.PathLike[str], registry: Registry | None = None) -> Model:
    """The model of a saved directory, or of a spec (a `.toml` path or a ready name) with random weights of seed 0.

    Raises:
        ModelFileError, SpecError: the directory or the spec cannot be used.
    """
    from peirce.compose.loading import load
    from peirce.compose.upgrading import build

    if is_saved(source, registry):
        return load(os.fspath(source), registry=registry)
    return build(os.fspath(source), seed=0, registry=registry)


def is_saved(source: str | os.PathLike[str], registry: Registry | None = None) -> bool:
    """Whether a model's source is a saved directory rather than a spec.

    Raises:
        ModelFileError: it is neither a folder nor a spec's file nor the name of a ready spec.
    """
    path = Path(source)
    if path.is_dir() or path.suffix == ".toml":
        return path.is_dir()
    name, known = os.fspath(source), ready_specs(registry)
    if is_path(source) or name not in known:
        spec = "A spec is a path that ends in .toml, or a name of `peirce spec list`"
        near = near_names(path, f"*/{PROVENANCE}")
        raise ModelFileError(
            f"there is no folder {name}{near}; `peirce train` and `Model.save` write one. "
            f"{spec if is_path(source) else unknown('ready spec', name, known)}"
        )
    return False
