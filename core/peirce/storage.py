"""Saved models: spec.toml, weights.safetensors, provenance.json and assets/ in one directory; no pickle anywhere."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from peirce.errors import ModelFileError, PeirceError, SpecError
from peirce.model import Model, placed
from peirce.plan import resolve
from peirce.provenance import check_format, differences, provenance_of
from peirce.spec import Spec

if TYPE_CHECKING:
    from peirce.registry import Registry

SPEC, WEIGHTS, PROVENANCE, ASSETS = "spec.toml", "weights.safetensors", "provenance.json", "assets"


_FLOATS = ("F64", "F32", "F16", "BF16")
"""What safetensors calls the types that a model computes in."""


class ProvenanceWarning(UserWarning):
    """A model is loaded with parts from other versions than it was made with."""


def save(model: Model, directory: Path, assets: Mapping[str, bytes]) -> None:
    """Write a model into a directory, replacing the model that may stand there; other files in it stay.

    Everything is written beside the directory first, so that a failure leaves what stood there as it was.
    """
    for name in assets:
        # A name may come from data; no file is written outside the model's directory.
        if Path(name).is_absolute() or ".." in Path(name).parts or not Path(name).name:
            raise ModelFileError(
                f"asset {name!r} has no name below {ASSETS}/, such as vocabulary.txt or kg/names.json"
            )
    if directory.exists() and not directory.is_dir():
        raise ModelFileError(f"{directory} is a file; a model is saved as a directory: give another name")
    try:
        _write(model, directory, assets)
    except (OSError, SafetensorError) as error:
        raise ModelFileError(
            f"the model cannot be saved in {directory}: {error}; what stood there is as it was: make room, or save "
            "elsewhere"
        ) from error


def _write(model: Model, directory: Path, assets: Mapping[str, bytes]) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        (fresh / SPEC).write_text(model.spec.to_toml(), encoding="utf-8")
        tensors = {name: value.detach().contiguous().cpu() for name, value in model.state_dict().items()}
        save_file(tensors, fresh / WEIGHTS, metadata={"format": "pt"})
        (fresh / PROVENANCE).write_text(json.dumps(model.provenance, indent=2) + "\n", encoding="utf-8")
        for name, content in assets.items():
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


def load(
    directory: Path,
    registry: Registry,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    fuse: bool = True,
) -> Model:
    """Read a saved model; see `peirce.load`."""
    _check_directory(directory)
    recorded = _read_provenance(directory / PROVENANCE)
    missing, other = differences(recorded, registry)
    if missing:
        raise ModelFileError(
            f"{directory} needs parts that are not here: {'; '.join(missing)}. Install the distributions named, or "
            "switch their plug-ins on with 'peirce plugins enable'" + _beside(other)
        )
    if other:
        warnings.warn(
            f"{directory} was made with other versions: {'; '.join(other)}", ProvenanceWarning, stacklevel=3
        )
    spec = _read_spec(directory / SPEC)
    try:
        plan = resolve(spec, registry, fuse=fuse)
    except SpecError as error:
        raise ModelFileError(f"{directory} cannot be composed here: {error}") from error
    with torch.device("meta"):
        model = Model(plan, provenance_of(plan, registry))
    weights = directory / WEIGHTS
    _check_weights(weights, model)
    model.load_state_dict(load_file(weights), assign=True)
    _complete(model)
    return placed(model, device, dtype)


def _complete(model: Model) -> None:
    """Fill the buffers that are no part of the state: a part computes them from its options alone."""
    left = [name for name, buffer in model.named_buffers() if buffer.is_meta]
    if not left:
        return
    fresh = dict(Model(model.plan, model.provenance).named_buffers())
    for name in left:
        owner, _, leaf = name.rpartition(".")
        model.get_submodule(owner).register_buffer(leaf, fresh[name], persistent=False)


def _check_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise ModelFileError(f"there is no saved model at {directory}: it is not a directory")
    absent = [name for name in (SPEC, WEIGHTS, PROVENANCE) if not (directory / name).is_file()]
    if absent:
        raise ModelFileError(
            f"{directory} is not a complete saved model: {', '.join(absent)} {'is' if len(absent) == 1 else 'are'} "
            "missing; Model.save writes spec.toml, weights.safetensors and provenance.json"
        )


def _read_provenance(path: Path) -> Any:
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{path} cannot be read: {error}; restore it from where the model was saved"
        ) from error
    if not isinstance(recorded, dict):
        raise ModelFileError(f"{path} is not the provenance of a Peirce model: it holds no table")
    check_format(recorded, str(path))
    return recorded


def _read_spec(path: Path) -> Spec:
    try:
        return Spec.from_toml(path.read_text(encoding="utf-8"), source=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(
            f"{path} cannot be read: {error}; restore it from where the model was saved"
        ) from error
    except PeirceError as error:
        raise ModelFileError(str(error)) from error


def _check_weights(path: Path, model: Model) -> None:
    """Hold the header of a weights file against the model, before a tensor is read."""
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: list(file.get_slice(name).get_shape()) for name in file.offset_keys()}
            types = {name: file.get_slice(name).get_dtype() for name in found}
    except (SafetensorError, OSError) as error:
        raise ModelFileError(
            f"{path} is no complete safetensors file ({error}); it is truncated or foreign: save or copy it again"
        ) from error
    state = model.state_dict()
    wanted = {name: list(value.shape) for name, value in state.items()}
    problems = [f"{name} is missing" for name in wanted if name not in found]
    problems += [f"{name} is unknown" for name in found if name not in wanted]
    problems += [
        f"{name} has the shape {shape}, and the spec needs {wanted[name]}"
        for name, shape in found.items()
        if name in wanted and shape != wanted[name]
    ]
    problems += [
        f"{name} is of the type {types[name]}, and not one of {', '.join(_FLOATS)}"
        for name in found
        if name in wanted and state[name].is_floating_point() and types[name] not in _FLOATS
    ]
    if problems:
        shown = "; ".join(problems[:10]) + (f"; and {len(problems) - 10} more" if len(problems) > 10 else "")
        raise ModelFileError(f"{path} does not hold the weights of the model in spec.toml: {shown}")


def _beside(other: list[str]) -> str:
    return f". Besides, {'; '.join(other)}" if other else ""
