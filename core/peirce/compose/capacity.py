"""Whether a model can be held at all: what its sizes need, beside the memory of the machine, before it is composed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from peirce.compose.resolution import resolve
from peirce.errors import PeirceError, SpecError
from peirce.model import Model
from peirce.parts import Plan
from peirce.spec import Spec

if TYPE_CHECKING:
    from peirce.registry import Registry

LAYER_BYTES = 150_000
"""What the modules of a layer take without any parameter, as measured with folnet-base on Python 3.11."""

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says what a container may take."""


def refuse_beyond_memory(plan: Plan, registry: Registry) -> None:
    """Refuse a model whose parameters and modules need more than all the memory of this machine.

    Nothing else in memory counts, so what is refused cannot work, and what is let through may still not.

    Args:
        plan: of the model. Its parameters do not count where torch's default device is `meta`.
        registry: where its parts are looked up.

    Raises:
        SpecError: the model is too large; the message has both numbers.
    """
    memory = machine_memory()
    modules = plan.dims.layers * LAYER_BYTES
    width = torch.get_default_dtype().itemsize if torch.get_default_device().type != "meta" else 0
    if memory is None or modules + _crude(plan) * width <= memory:
        return
    where = f"{plan.spec.at('model.dims')}: a model of these sizes"
    advice = f"; this machine has {_gigabytes(memory)}. Lower the sizes of model.dims and model.input"
    if modules > memory:
        raise SpecError(
            f"{where} needs about {_gigabytes(modules)} for its {plan.dims.layers:,} layers, before any parameter"
            f"{advice}"
        )
    count = parameters(plan.spec, registry)
    if count is not None and modules + count * width > memory:
        raise SpecError(
            f"{where} has about {count:,} parameters, which need {_gigabytes(count * width)}{advice}"
        )


def parameters(spec: Spec, registry: Registry) -> int | None:
    """How many parameters a model has, from models of one and two layers: each further layer adds the same.

    None where it cannot be told: nothing of the spec composes with so few layers, or numbers overflow.
    """
    depth = spec.dims.get("layers")
    try:
        if not isinstance(depth, int) or depth <= 2:
            return _counted(spec, registry)
        one, two = (_counted(spec.replace({"model.dims.layers": layers}), registry) for layers in (1, 2))
    except (PeirceError, MemoryError, RuntimeError):
        return None
    return one + (depth - 1) * (two - one)


def machine_memory() -> int | None:
    """The bytes of memory that this process may take at most; None where the system does not say."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    for limit in _LIMITS:
        try:
            found = min(found, int(Path(limit).read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue  # there is no container, or it has no limit
    return found


def _counted(spec: Spec, registry: Registry) -> int:
    with torch.device("meta"):
        model = Model(resolve(spec, registry), {})
    return sum(parameter.numel() for parameter in model.parameters())


def _crude(plan: Plan) -> int:
    """More parameters than models of these sizes usually have; most need no closer look."""
    dims = plan.dims
    known = dims.known()
    widths = sum(
        known.get(name, 0) for name in ("unary", "binary", "feedforward_unary", "feedforward_binary")
    )
    widths += known.get("heads", 0) * known.get("head_size", 0)
    tables = (dims.vocabulary + dims.token_types + dims.max_length) * dims.unary
    return 16 * (dims.layers + 1) * widths**2 + 4 * tables


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
