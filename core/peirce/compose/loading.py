"""Reading saved models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from peirce.compose.building import FLOATS, Seeded, placed
from peirce.compose.provenance import differences, provenance_of
from peirce.compose.resolution import resolve
from peirce.errors import ModelFileError, PeirceError
from peirce.model import PROVENANCE, SPEC, WEIGHTS, Model, saved_files
from peirce.registry import Registry, default_registry
from peirce.spec import Spec


class ProvenanceWarning(UserWarning):
    """A model is loaded with parts from other versions than it was made with."""


def load(
    directory: str | Path,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    fuse: bool = True,
    registry: Registry | None = None,
    digests: bool | None = None,
) -> Model:
    """Read a model that `Model.save` wrote.

    Args:
        directory: where it was saved.
        device: where the model goes.
        dtype: its floating dtype, to which all parameters and buffers are converted; if None each has the one that it
            was saved with, and weights that have another are refused.
        fuse: whether stages use fused projections.
        registry: where parts are looked up; the default registry if None.
        digests: whether each file is held against its digest; if None it is, unless `PEIRCE_NO_DIGESTS` is set.

    Raises:
        ModelFileError: a file is missing, damaged, foreign or newer, or a plug-in that the model needs is missing.
    """
    directory, registry = Path(directory), registry or default_registry()
    with saved_files(directory, digests=digests) as files:
        missing, other = differences(files.provenance, registry)
        if missing:
            besides = f". Besides, {'; '.join(other)}" if other else ""
            raise ModelFileError(
                f"{directory} needs parts that are not here: {'; '.join(missing)}. Install the distributions named, or "
                f"switch their plug-ins on with 'peirce plugins enable'{besides}"
            )
        if other:
            warnings.warn(
                f"{directory} was made with other versions: {'; '.join(other)}",
                ProvenanceWarning,
                stacklevel=2,
            )
        path = directory / SPEC
        try:
            plan = resolve(Spec.from_toml(files.text(SPEC), source=str(path)), registry, fuse=fuse)
        except (PeirceError, UnicodeDecodeError) as error:
            raise ModelFileError(f"{path} cannot be composed here: {error}") from error
        with Seeded(0, fill=False):
            model = Model(plan, provenance_of(plan, registry))
        model.folder, path = directory, directory / WEIGHTS
        try:
            weights = load_file(files.path(WEIGHTS))
        except (SafetensorError, OSError) as error:
            raise ModelFileError(f"{path} cannot be read: {error}; save or copy it again") from error
        found = _fitting(weights, model, path)
        stored = None if dtype is not None else _stored(found, model, files.provenance.get("dtype"), path)
        # Copied, since what safetensors reads follows the file: it would change, or end the process, with it.
        model.load_state_dict({name: value.clone() for name, value in weights.items()}, assign=True)
        del weights
    for name, buffer in model.named_buffers():
        # Those that parts compute, and no file holds, have the dtype that they had when the model was saved.
        kind = getattr(torch, (stored or {}).get(name, ""), buffer.dtype)
        if buffer.is_floating_point() and buffer.dtype != kind:
            buffer.data = buffer.data.to(kind)
    return placed(model, device, dtype)


def _fitting(weights: Mapping[str, Tensor], model: Model, path: Path) -> dict[str, str]:
    """The dtype of each floating tensor that was read, where all of them are those of the model."""
    state, found = model.state_dict(), {}
    problems = [f"{name} is missing" for name in state if name not in weights]
    for name, value in weights.items():
        needed = state.get(name)
        if needed is None:
            problems.append(f"{name} is unknown")
        elif value.shape != needed.shape:
            problems.append(
                f"{name} has the shape {list(value.shape)}, and the spec needs {list(needed.shape)}"
            )
        elif needed.is_floating_point() and value.dtype in FLOATS:
            found[name] = str(value.dtype).removeprefix("torch.")
        elif needed.is_floating_point() or value.dtype != needed.dtype:
            problems.append(f"{name} is of the type {value.dtype}, and the spec needs {needed.dtype}")
    if problems:
        raise ModelFileError(f"{path} does not hold the weights of the model in {SPEC}: {_listed(problems)}")
    return found


def _stored(found: Mapping[str, str], model: Model, recorded: Any, path: Path) -> Mapping[str, str]:
    """The dtype of each floating parameter and buffer, as it was saved.

    Raises:
        ModelFileError: the weights have other dtypes than the provenance says; or several, where it says nothing.
    """
    give = "save the model again, or load it with `dtype=`, which converts all of them"
    if recorded is None:
        kinds = sorted(set(found.values()))
        if len(kinds) > 1:
            raise ModelFileError(
                f"{path} has tensors of {' and '.join(kinds)}, and was saved by a version that does not record which "
                f"is right; {give}"
            )
        recorded = kinds[0] if kinds else "float32"
    named = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    floating = [name for name, value in named if value.is_floating_point()]
    wanted = dict.fromkeys(floating, recorded) if isinstance(recorded, str) else recorded
    problems = [
        f"{name} is {kind}, and was saved as {wanted.get(name, 'none')}"
        for name, kind in found.items()
        if wanted.get(name) != kind
    ]
    if problems:
        raise ModelFileError(
            f"{path} has other dtypes than {PROVENANCE} says: {_listed(problems)}. Restore it from where the model was "
            f"saved, or {give}"
        )
    return wanted


def _listed(problems: Sequence[str]) -> str:
    return "; ".join(problems[:10]) + (f"; and {len(problems) - 10} more" if len(problems) > 10 else "")
