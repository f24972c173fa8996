"""From a spec to a model, which begins afresh or with the weights of a model that it contains."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from attrs import evolve

from peirce.compose.building import build_afresh, place_model
from peirce.compose.containing import take_all
from peirce.compose.loading import load
from peirce.model import Model
from peirce.parts import Plan
from peirce.registry import Registry, default_registry, load_spec
from peirce.spec import Spec


def build(
    spec: Spec | Plan | str | Path,
    seed: int = 0,
    fuse: bool = True,
    registry: Registry | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Model:
    """Compose a model from a spec, with freshly initialised parameters; a spec with `from` begins with a saved model.

    Args:
        spec: a spec, its plan from `resolve`, the path of one, or a ready name.
        seed: what the parameters depend on; the same seed gives the same parameters on every device.
        fuse: whether stages use fused projections; the state dict is the same either way.
        registry: where parts are looked up; the default registry if None.
        device: where the model goes.
        dtype: its floating dtype.

    Raises:
        SpecError: the spec cannot be read or composed, or its model does not fit into the memory of this machine; or
            it does not contain that of the model in `from`.
        ModelFileError: that one is not complete.
    """
    registry = registry or default_registry()
    if not isinstance(spec, Spec | Plan):
        spec = load_spec(spec, registry=registry)
    base = (spec.spec if isinstance(spec, Plan) else spec).from_
    model = build_afresh(spec, seed=seed, fuse=fuse, registry=registry)
    if base is not None and torch.get_default_device().type != "meta":
        old = load(base, registry=registry)
        take_all(model.to(old.dtype), old)
    return place_model(model, device, dtype)


def upgraded(
    model: Model, spec: Spec | str | os.PathLike[str], *, seed: int = 0, registry: Registry | None = None
) -> Model:
    """A model of a spec that contains the spec of another, with the weights of that one.

    What that one has keeps its values. The operators that are new write zeros at first, and the gates of new augmenters
    are zero. So every output that both have is the same, but for relations that no head reads: to the bit where no sum
    has terms in another order, as in the architecture `two_branch`. What is new begins as in any new model otherwise;
    so it learns from the first step on.

    Args:
        model: the model that is upgraded; it stays as it is.
        spec: a spec with all that its spec has, or a path or a name of one. New parts stand behind those it has.
        seed: what the new parameters depend on.
        registry: where parts are looked up.

    Raises:
        PlanError: the spec lacks something of the model, a parameter has another shape, or outputs would change.
    """
    spec = spec if isinstance(spec, Spec) else load_spec(spec, registry=registry)
    new = build(evolve(spec, from_=None), seed=seed, registry=registry)
    like = next(model.parameters())
    take_all(new.to(device=like.device, dtype=like.dtype), model)
    return new
