"""Saved models: spec.toml, weights.safetensors, provenance.json and assets/ in one directory; no pickle anywhere."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from peirce.errors import ModelFileError

SPEC, WEIGHTS, PROVENANCE, ASSETS = "spec.toml", "weights.safetensors", "provenance.json", "assets"


@frozen(kw_only=True)
class Saved:
    """What is written of a model.

    Args:
        spec: as TOML.
        tensors: the state dict.
        provenance: where each part comes from.
        assets: further files, by their path below assets/.
    """

    spec: str
    tensors: Mapping[str, Tensor]
    provenance: Mapping[str, Any]
    assets: Mapping[str, bytes]


def save(saved: Saved, directory: Path) -> None:
    """Write a model into a directory, replacing the model that may stand there; other files in it stay.

    Everything is written beside the directory first, so that a failure leaves what stood there as it was.
    """
    for name in saved.assets:
        # A name may come from data; no file is written outside the model's directory.
        if Path(name).is_absolute() or ".." in Path(name).parts or not Path(name).name:
            raise ModelFileError(
                f"asset {name!r} has no name below {ASSETS}/, such as vocabulary.txt or kg/names.json"
            )
    if directory.exists() and not directory.is_dir():
        raise ModelFileError(f"{directory} is a file; a model is saved as a directory: give another name")
    try:
        _write(saved, directory)
    except (OSError, SafetensorError) as error:
        raise ModelFileError(
            f"the model cannot be saved in {directory}: {error}; what stood there is as it was: make room, or save "
            "elsewhere"
        ) from error


def _write(saved: Saved, directory: Path) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        (fresh / SPEC).write_text(saved.spec, encoding="utf-8")
        tensors = {name: value.detach().contiguous().cpu() for name, value in saved.tensors.items()}
        save_file(tensors, fresh / WEIGHTS, metadata={"format": "pt"})
        (fresh / PROVENANCE).write_text(json.dumps(saved.provenance, indent=2) + "\n", encoding="utf-8")
        for name, content in saved.assets.items():
            path = fresh / ASSETS / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        fresh.chmod(0o755)
        if not directory.exists():
            fresh.rename(directory)
            return
        moves = [(p, directory / p.relative_to(fresh)) for p in sorted(fresh.rglob("*")) if p.is_file()]
        for _, target in moves:
            # Asked of all of them first: the move after it would be too late to leave everything as it was.
            if target.is_dir():
                raise IsADirectoryError(f"{target} is a directory, where a file of the model goes")
        for source, target in moves:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
