"""From a spec to a model with fresh parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from attrs import evolve
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from peirce.compose.provenance import provenance_of
from peirce.compose.resolution import resolve
from peirce.errors import InputError, PeirceError, PlanError, SpecError, lacks_memory
from peirce.model import FLOATS, Model
from peirce.parts import Architecture, ModulePart, Plan, initialise, record_defaults
from peirce.registry import Registry, default_registry
from peirce.resources import machine_memory
from peirce.spec import Spec

_FILLS = {
    *("uniform_", "normal_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_", "log_normal_"),
    *("kaiming_uniform_", "kaiming_normal_", "xavier_uniform_", "xavier_normal_", "trunc_normal_"),
}
_DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"}
"""Functions and methods of torch that take a generator."""


def build_afresh(
    spec: Spec | Plan, *, seed: int, fuse: bool = True, registry: Registry | None = None
) -> Model:
    """Compose a model with freshly initialised parameters, whatever its spec begins `from`.

    Args:
        spec: a spec, or its plan from `resolve`.
        seed, fuse, registry: as `build` has them.

    Raises:
        SpecError: the spec cannot be composed, or its model does not fit into the memory of this machine.
    """
    registry = registry or default_registry()
    plan = evolve(spec, fuse=fuse) if isinstance(spec, Plan) else resolve(spec, registry, fuse=fuse)
    check_vocabulary(plan)
    plan = evolve(plan, spec=evolve(plan.spec, from_=None))
    _refuse_beyond_memory(plan)
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**64:
        raise InputError(f"seed is {seed!r}; it must be an integer of at most 64 bits")
    with SeededGenerators(seed), record_defaults() as fingerprints:
        try:
            model = Model(plan, provenance_of(plan, registry))
        except (MemoryError, RuntimeError) as error:
            cause = str(error).partition("\n")[0]
            if not lacks_memory(error) and "overflow" not in cause.lower():
                raise
            raise SpecError(
                f"{plan.spec.at('model.dims')}: there is not enough memory for a model of these sizes ({cause}); lower "
                "model.dims, model.input or the sizes of parts; `peirce summary` shows how many parameters each has"
            ) from error
        if torch.get_default_device().type != "meta":
            initialise(model, plan.spec.regularisation.init_std, fingerprints)
            for module in model.modules():
                if isinstance(module, ModulePart | Architecture):
                    module.begin()
    return model


def check_vocabulary(plan: Plan) -> None:
    """Refuse a plan without a vocabulary, with a `PlanError`."""
    if plan.spec.input.vocabulary is None:
        raise PlanError(
            f"{plan.spec.at('model.input')}: model.input.vocabulary is missing: give the number of token ids, such as "
            "vocabulary = 32768, or train with a task that determines it"
        )


def place_model(model: Model, device: torch.device | str | None, dtype: torch.dtype | None) -> Model:
    """The model on a device and in a floating dtype; None leaves either as it is.

    Raises:
        InputError: the device does not exist here, or models do not compute in the dtype.
    """
    if dtype is not None and dtype not in FLOATS:
        raise InputError(f"dtype is {dtype!r}; models compute in {', '.join(map(str, FLOATS))}")
    if device is not None and str(device).startswith("cuda"):
        refuse_missing_gpu(str(device))
    try:
        return model.to(device=device, dtype=dtype)
    except (AssertionError, RuntimeError) as error:
        cause = str(error).partition("\n")[0]
        raise InputError(
            f"the model cannot be moved to device {str(device)!r}: {cause}; `peirce doctor` shows the devices"
        ) from error


def refuse_missing_gpu(device: str) -> None:
    """Refuse a device of CUDA where torch finds none, and say why.

    Raises:
        InputError: torch was built without CUDA, or finds no GPU or no driver.
    """
    if torch.cuda.is_available():
        return
    try:
        torch.cuda.init()
        cause = "torch finds none"
    except (AssertionError, RuntimeError) as error:  # the first is what a torch without CUDA raises
        cause = str(error).partition("\n")[0]
    raise InputError(
        f"no GPU found for device {device!r}: {cause}; leave the device out to compute on the CPU; "
        "`peirce doctor` lists the devices"
    )


class SeededGenerators(TorchFunctionMode):
    """Within it, this thread draws random numbers from generators of one seed; torch's own generators do not move.

    Args:
        seed: of the generator of each device.
        fill: whether parameters are filled; else they are left as memory happens to be, which costs no memory until
            values are loaded into them. Buffers are filled either way, since parts may compute them.
    """

    def __init__(self, seed: int, *, fill: bool = True) -> None:
        super().__init__()
        self._seed, self._fill, self._generators = seed, fill, dict[torch.device, torch.Generator]()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Give a function that draws the generator of its device, if it was given none."""
        kwargs = dict(kwargs or {})
        first = kwargs.get("tensor", args[0] if args else None)
        if not self._fill and func.__name__ in _FILLS and isinstance(first, nn.Parameter):
            return first
        if func.__name__ in _FILLS | _DRAWS and kwargs.get("generator") is None:
            device = first.device if isinstance(first, Tensor) else kwargs.get("device")
            device = torch.device(device or torch.get_default_device())
            if device.type != "meta":
                if device not in self._generators:
                    self._generators[device] = torch.Generator(device).manual_seed(self._seed)
                kwargs["generator"] = self._generators[device]
        return func(*args, **kwargs)


_LAYER_BYTES = 150_000
"""What the modules of a layer take without any parameter, as measured with folnet-base on Python 3.11."""


def _refuse_beyond_memory(plan: Plan) -> None:
    """Refuse a model whose modules and parameters alone need more than all the memory of this machine."""
    memory = machine_memory()
    needed = plan.dims.layers * _LAYER_BYTES
    width = torch.get_default_dtype().itemsize if torch.get_default_device().type != "meta" else 0
    sizes = plan.dims.known()
    rows = sum(sizes.pop(name, 0) for name in ("vocabulary", "max_length", "pad_id"))
    layers = sizes.pop("layers")
    # More parameters than models of these sizes usually have; most need no closer look.
    crude = (16 * (layers + 1) * sum(sizes.values()) + 4 * rows) * sum(sizes.values())
    if needed <= memory < needed + crude * width:
        # What does not compose, or overflows, is reported when the model is made.
        with suppress(PeirceError, MemoryError, RuntimeError), torch.device("meta"):
            needed += sum(parameter.numel() for parameter in Model(plan, {}).parameters()) * width
    if needed > memory:
        raise SpecError(
            f"{plan.spec.at('model.dims')}: a model of these sizes needs about {needed / 1e9:,.1f} GB; this machine "
            f"has {memory / 1e9:,.1f} GB. Lower the sizes of model.dims and model.input"
        )
