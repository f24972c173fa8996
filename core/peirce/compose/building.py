"""From a spec to a model with fresh parameters."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from peirce.compose.provenance import provenance_of
from peirce.compose.resolution import resolve
from peirce.errors import InputError, SpecError
from peirce.model import Model
from peirce.parts import Architecture, ModulePart, initialise, watched
from peirce.registry import Registry, default_registry
from peirce.spec import Spec, load_spec


def build(
    spec: Spec | str | Path,
    seed: int = 0,
    fuse: bool = True,
    registry: Registry | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Model:
    """Compose a model from a spec, with freshly initialised parameters.

    Args:
        spec: a spec, the path of one, or a ready name.
        seed: what the parameters depend on; the same seed gives the same parameters on every device.
        fuse: whether stages use fused projections; the state dict is the same either way.
        registry: where parts are looked up; the default registry if None.
        device: where the model goes.
        dtype: its floating dtype.

    Raises:
        SpecError: the spec cannot be read or composed, or no memory of this machine holds its model.
    """
    from peirce.compose.capacity import refuse_beyond_memory

    registry = registry or default_registry()
    spec = spec if isinstance(spec, Spec) else load_spec(spec)
    plan = resolve(spec, registry, fuse=fuse)
    refuse_beyond_memory(plan, registry)
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**64:
        raise InputError(f"seed is {seed!r}; it must be an integer of at most 64 bits")
    with torch.random.fork_rng(devices=[]), watched() as given:
        torch.manual_seed(seed)
        try:
            model = Model(plan, provenance_of(plan, registry))
        except (MemoryError, RuntimeError) as error:
            _refuse_sizes(spec, error)
            raise
        if torch.get_default_device().type != "meta":
            initialise(model, spec.regularisation.init_std, given)
            for module in model.modules():
                if isinstance(module, ModulePart | Architecture):
                    module.begin()
    return placed(model, device, dtype)


def placed(model: Model, device: torch.device | str | None, dtype: torch.dtype | None) -> Model:
    """The model on a device and in a floating dtype; None leaves either as it is.

    Raises:
        InputError: there is no such device here, or the dtype is not a floating one.
    """
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise InputError(f"dtype is {dtype!r}; it must be a floating dtype of torch, such as torch.float16")
    try:
        return model.to(device=device, dtype=dtype)
    except (AssertionError, RuntimeError) as error:
        # The first is what a torch without CUDA raises.
        cause = str(error).partition("\n")[0]
        raise InputError(
            f"the model cannot be moved to device {str(device)!r}: {cause}; `peirce doctor` shows the devices"
        ) from error


def _refuse_sizes(spec: Spec, error: Exception) -> None:
    """Raise a `SpecError` if an error says that no memory holds a model of these sizes; torch has no class for it."""
    cause = str(error).partition("\n")[0]
    if isinstance(error, MemoryError) or re.search("memory|overflow", cause, re.IGNORECASE):
        raise SpecError(
            f"{spec.at('model.dims')}: there is not enough memory for a model of these sizes ({cause}); lower those "
            "of model.dims, model.input and the parts; `peirce summary` shows how many parameters each takes"
        ) from error
