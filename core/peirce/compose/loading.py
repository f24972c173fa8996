"""Reading saved models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from attrs import evolve
from safetensors import SafetensorError
from safetensors.torch import load_file

from peirce.compose.building import SeededGenerators, check_vocabulary, place_model
from peirce.compose.containing import place_tensors
from peirce.compose.provenance import differences, provenance_of
from peirce.compose.resolution import resolve
from peirce.errors import ModelFileError, PeirceError
from peirce.model import (
    BASE,
    CONTENT,
    GAINED,
    SPEC,
    WEIGHTS,
    Base,
    Model,
    dtype_differences,
    list_differences,
    saved_files,
    weight_differences,
    weights_digest,
)
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
    base: str | Path | None = None,
) -> Model:
    """Read a model that `Model.save` wrote.

    Args:
        directory: where it was saved.
        device: where the model goes.
        dtype: its floating dtype, to which all parameters and buffers are converted; if None each has the one that it
            was saved with.
        fuse: whether stages use fused projections.
        registry: where parts are looked up; the default registry if None.
        digests: whether each file is checked against its digest; if None, unless `PEIRCE_NO_DIGESTS` is set.
        base: where the model is that this one differs from, if only what was trained was saved; None for where it was.

    Raises:
        ModelFileError: a file is missing, damaged, foreign or newer, or a plug-in that the model needs is missing; or
            what was trained belongs to another model.
    """
    directory, registry = Path(directory), registry or default_registry()
    with saved_files(directory, digests=digests) as files:
        missing, other = differences(files.provenance, registry)
        if missing:
            besides = f". Besides, {'; '.join(other)}" if other else ""
            raise ModelFileError(
                f"{directory} needs parts that are missing: {'; '.join(missing)}. Install the distributions named, or "
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
            spec = Spec.from_toml(files.text(SPEC), source=str(path))
            plan = resolve(evolve(spec, from_=None), registry, fuse=fuse)
            check_vocabulary(plan)
        except (PeirceError, UnicodeDecodeError) as error:
            raise ModelFileError(f"{path} cannot be composed here: {error}") from error
        with SeededGenerators(0, fill=False):
            model = Model(plan, provenance_of(plan, registry))
        model.folder, path = directory, directory / WEIGHTS
        try:
            weights = load_file(files.path(WEIGHTS))
        except (SafetensorError, OSError) as error:
            raise ModelFileError(f"{path} cannot be read: {error}; save or copy it again") from error
        # Copied, since safetensors maps the file: a change of the file would change the weights or end the process.
        weights = {name: value.clone() for name, value in weights.items()}
    needed = model.state_dict()
    model.base = Base(directory.resolve(), {name: name for name in needed})
    if spec.from_ is not None:
        folder = Path(base or spec.from_)
        old = _read_base(directory, folder, files.provenance, registry, digests)
        names = place_tensors(old.state_dict(), needed)
        model.base = Base(folder.resolve(), names)
        begun = {names[name]: value for name, value in old.state_dict().items() if name in names}
        weights = {**begun, **weights}
    model.gained = frozenset(files.provenance.get(GAINED, ()))
    problems = weight_differences(weights, {name: value.shape for name, value in needed.items()})
    if listed := list_differences(problems | dtype_differences(weights, needed)):
        raise ModelFileError(f"{path} does not have the weights of the model in {SPEC}: {listed}")
    model.load_state_dict(weights, assign=True)
    # Buffers that parts compute are in no file; they get the dtype that they had when the model was saved.
    recorded = files.provenance.get(
        "dtype", str(model.dtype).removeprefix("torch.")
    )  # of all, or of each by name
    for name, buffer in model.named_buffers():
        if name not in weights and buffer.is_floating_point():
            saved = recorded.get(name, "") if isinstance(recorded, dict) else recorded
            buffer.data = buffer.data.to(getattr(torch, saved, buffer.dtype))
    return place_model(model, device, dtype)


def _read_base(
    directory: Path, base: Path, provenance: Mapping[str, Any], registry: Registry, digests: bool | None
) -> Model:
    """The model that a saved one differs from.

    Raises:
        ModelFileError: it is missing, or is not the one.
    """
    advice = f"give the folder of that one: peirce.load({str(directory)!r}, base=FOLDER)"
    try:
        with saved_files(base, digests=False) as files:
            found = files.provenance.get(CONTENT)
            if BASE in files.provenance:
                raise ModelFileError(f"{base} itself has only what was trained of another model")
        model = load(base, registry=registry, digests=digests)
    except ModelFileError as error:
        raise ModelFileError(
            f"{directory} has only what was trained of a model that began with {base}, and that cannot be read: "
            f"{error}. If it has moved, {advice}"
        ) from error
    found = found or weights_digest(model.state_dict())
    if found != provenance.get(BASE):
        raise ModelFileError(
            f"{directory} has only what was trained of a model that began with the weights {provenance.get(BASE)}, and "
            f"{base} has {found}: another model, or another version of it; {advice}"
        )
    return model
