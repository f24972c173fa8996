"""Reading saved models."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from peirce.compose.building import placed
from peirce.compose.filling import Unfilled
from peirce.compose.provenance import differences, provenance_of
from peirce.compose.resolution import resolve
from peirce.errors import ModelFileError, PeirceError, SpecError
from peirce.model import PROVENANCE, SPEC, WEIGHTS, Model, SavedFiles, saved_files
from peirce.registry import Registry, default_registry
from peirce.spec import Spec

_FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""What safetensors calls the dtypes that a model computes in, and what torch calls them."""
_OTHERS = {
    torch.int64: ("I64",),
    torch.int32: ("I32",),
    torch.int16: ("I16",),
    torch.int8: ("I8",),
    torch.uint8: ("U8",),
    torch.uint16: ("U16",),
    torch.uint32: ("U32",),
    torch.uint64: ("U64",),
    torch.bool: ("BOOL",),
    torch.complex64: ("C64",),
}
"""What safetensors calls the dtypes of counts and masks, which are never converted."""


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
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(
            f"{path} cannot be read: {error}; restore it from where the model was saved"
        ) from error
    except PeirceError as error:
        raise ModelFileError(str(error)) from error


def _check_weights(files: SavedFiles, model: Model) -> dict[str, str]:
    """Hold the header of a weights file against the model, before a tensor is read; the dtype of each tensor."""
    path, header = files.directory / WEIGHTS, files.weights()
    found, types = {name: list(shape) for name, shape in header.shapes.items()}, header.dtypes
    state = model.state_dict()
    wanted = {name: list(value.shape) for name, value in state.items()}
    problems = [f"{name} is missing" for name in wanted if name not in found]
    problems += [f"{name} is unknown" for name in found if name not in wanted]
    problems += [
        f"{name} has the shape {shape}, and the spec needs {wanted[name]}"
        for name, shape in found.items()
        if name in wanted and shape != wanted[name]
    ]
    for name in filter(state.__contains__, found):
        allowed = _FLOATS if state[name].is_floating_point() else _OTHERS.get(state[name].dtype, ())
        if types[name] not in allowed:
            problems.append(f"{name} is of the type {types[name]}, and not one of {', '.join(allowed)}")
    if problems:
        raise ModelFileError(f"{path} does not hold the weights of the model in {SPEC}: {_listed(problems)}")
    return {name: _FLOATS[kind] for name, kind in types.items() if kind in _FLOATS}


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
    names = [name for name, each in _tensors(model) if each.is_floating_point()]
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


def _tensors(model: Model) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _listed(problems: Sequence[str]) -> str:
    return "; ".join(problems[:10]) + (f"; and {len(problems) - 10} more" if len(problems) > 10 else "")
