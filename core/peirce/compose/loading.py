"""Reading saved models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from peirce.compose.building import placed
from peirce.compose.filling import Unfilled
from peirce.compose.provenance import differences, provenance_of
from peirce.compose.resolution import resolve
from peirce.errors import ModelFileError, PeirceError, SpecError
from peirce.model import PROVENANCE, SPEC, WEIGHTS, Model, SavedFiles, saved_files
from peirce.registry import Registry, default_registry
from peirce.spec import Spec

_FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""What safetensors calls the dtypes that a model computes in."""
_COUNTS = {
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "BOOL": torch.bool,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "C64": torch.complex64,
}
"""What it calls those of counts and masks, which are never converted."""


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
        spec = _read_spec(files)
        try:
            plan = resolve(spec, registry, fuse=fuse)
        except SpecError as error:
            raise ModelFileError(f"{directory} cannot be composed here: {error}") from error
        with Unfilled():
            model = Model(plan, provenance_of(plan, registry))
        model.folder = directory
        found = _check_weights(files, model)
        stored = None if dtype is not None else _stored_dtypes(files, model, found)
        try:
            # Copied, since what safetensors reads follows the file: it would change, or end the process, with it.
            weights = {name: value.clone() for name, value in load_file(files.path(WEIGHTS)).items()}
            model.load_state_dict(weights, assign=True)
        except (SafetensorError, OSError) as error:
            raise ModelFileError(
                f"{directory / WEIGHTS} cannot be read: {error}; save or copy it again"
            ) from error
    if stored is None:
        return placed(model, device, dtype)
    for name, buffer in model.named_buffers():
        # Those that parts compute, and no file holds, have the dtype that they had when the model was saved.
        kind = getattr(torch, stored.get(name, ""), buffer.dtype)
        if buffer.is_floating_point() and buffer.dtype != kind:
            buffer.data = buffer.data.to(kind)
    return placed(model, device, None)


def _read_spec(files: SavedFiles) -> Spec:
    path = files.directory / SPEC
    try:
        return Spec.from_toml(files.text(SPEC), source=str(path))
    except UnicodeDecodeError as error:
        raise ModelFileError(
            f"{path} cannot be read: {error}; restore it from where the model was saved"
        ) from error
    except PeirceError as error:
        raise ModelFileError(str(error)) from error


def _check_weights(files: SavedFiles, model: Model) -> dict[str, str]:
    """Hold the header of a weights file against the model; the dtype of each floating tensor in it."""
    header, state = files.weights(), model.state_dict()
    problems, found = [f"{name} is missing" for name in state if name not in header.shapes], {}
    for name, shape in header.shapes.items():
        kind, needed = header.dtypes[name], state.get(name)
        if needed is None:
            problems.append(f"{name} is unknown")
        elif shape != tuple(needed.shape):
            problems.append(f"{name} has the shape {list(shape)}, and the spec needs {list(needed.shape)}")
        elif needed.is_floating_point() and kind in _FLOATS:
            found[name] = str(_FLOATS[kind]).removeprefix("torch.")
        elif needed.is_floating_point() or _COUNTS.get(kind) != needed.dtype:
            problems.append(f"{name} is of the type {kind}, and the spec needs {needed.dtype}")
    if problems:
        raise ModelFileError(
            f"{files.directory / WEIGHTS} does not hold the weights of the model in {SPEC}: {_listed(problems)}"
        )
    return found


def _stored_dtypes(files: SavedFiles, model: Model, found: Mapping[str, str]) -> Mapping[str, str]:
    """The dtype of each floating parameter and buffer, as it was saved.

    Raises:
        ModelFileError: the weights have other dtypes than the provenance says; or several, where it says nothing.
    """
    path, recorded = files.directory / WEIGHTS, files.provenance.get("dtype")
    give = "save the model again, or load it with `dtype=`, which converts all of them"
    if recorded is None:
        kinds = sorted(set(found.values()))
        if len(kinds) > 1:
            raise ModelFileError(
                f"{path} has tensors of {' and '.join(kinds)}, and was saved by a version that does not record which "
                f"is right; {give}"
            )
        recorded = kinds[0] if kinds else "float32"
    named = model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)
    names = [name for kind in named for name, each in kind if each.is_floating_point()]
    wanted = dict.fromkeys(names, recorded) if isinstance(recorded, str) else recorded
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
