"""Reading saved models."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from peirce.compose.building import placed
from peirce.compose.provenance import check_format, differences, provenance_of
from peirce.compose.resolution import resolve
from peirce.errors import ModelFileError, PeirceError, SpecError
from peirce.model import PROVENANCE, SPEC, WEIGHTS, Model
from peirce.registry import Registry, default_registry
from peirce.spec import Spec

_FLOATS = ("F64", "F32", "F16", "BF16")
"""What safetensors calls the types that a model computes in."""


class ProvenanceWarning(UserWarning):
    """A model is loaded with parts from other versions than it was made with."""


def load(
    directory: str | Path,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    fuse: bool = True,
    registry: Registry | None = None,
) -> Model:
    """Read a model that `Model.save` wrote.

    Args:
        directory: where it was saved.
        device: where the model goes.
        dtype: its floating dtype; as saved if None.
        fuse: whether stages use fused projections.
        registry: where parts are looked up; the default registry if None.

    Raises:
        ModelFileError: a file is missing, damaged, foreign or newer, or a plug-in that the model needs is missing.
    """
    directory, registry = Path(directory), registry or default_registry()
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
            f"{directory} was made with other versions: {'; '.join(other)}", ProvenanceWarning, stacklevel=2
        )
    spec = _read_spec(directory / SPEC)
    try:
        plan = resolve(spec, registry, fuse=fuse)
    except SpecError as error:
        raise ModelFileError(f"{directory} cannot be composed here: {error}") from error
    with torch.random.fork_rng(devices=[]), _without_storage():
        model = Model(plan, provenance_of(plan, registry))
    weights = directory / WEIGHTS
    _check_weights(weights, model)
    model.load_state_dict(load_file(weights), assign=True)
    return placed(model, device, dtype)


@contextmanager
def _without_storage() -> Iterator[None]:
    """Within it, the parameters that this thread makes have no storage. Buffers do: parts compute them."""
    thread = threading.get_ident()

    def replaced(module: nn.Module, name: str, parameter: nn.Parameter | None) -> nn.Parameter | None:
        if parameter is None or parameter.is_meta or threading.get_ident() != thread:
            return None
        return nn.Parameter(parameter.to("meta"), parameter.requires_grad)

    hook = register_module_parameter_registration_hook(replaced)  # type: ignore[arg-type]  # as torch documents it
    try:
        yield
    finally:
        hook.remove()


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
