"""What torch and its trainers wrap around a model, taken off where a function needs the model itself."""

from __future__ import annotations

from typing import Any

from torch import nn

from peirce.errors import InputError
from peirce.model.model import Model
from peirce.model.wrappers import INNER, refuse_sharded, sharded_error

_WRAPPING = {"accelerate", "deepspeed", "lightning", "lightning_fabric", "torch"}
"""The packages whose classes run the one module within them as it is; its attribute is one of these."""


def unwrap(model: Any) -> Model:
    """The model within what torch wraps around one, such as DistributedDataParallel and `torch.compile`.

    Args:
        model: a model, or a module of torch's or of a trainer's that runs one; the weights are shared with it. Of an
            `AveragedModel` it is the model with the averaged weights.

    Raises:
        InputError: it is something else, with the model inside it or without one, or its weights are sharded over
            processes.
    """
    found = model
    while isinstance(found, nn.Module) and not isinstance(found, Model):
        inner = [getattr(found, name) for name in INNER if isinstance(getattr(found, name, None), nn.Module)]
        if not inner or type(found).__module__.partition(".")[0] not in _WRAPPING:
            break
        if "FullyShardedDataParallel" in type(found).__name__:
            raise sharded_error(type(found).__name__)
        found = inner[0]
    if isinstance(found, Model):
        refuse_sharded(found)
        return found
    modules = model.named_modules() if isinstance(model, nn.Module) else ()
    place = next((name for name, each in modules if isinstance(each, Model)), "")
    advice = f"pass its `{place}`" if place else "`peirce.build` and `peirce.load` give one"
    raise InputError(f"a peirce.Model is needed here, and a {type(model).__name__} was given; {advice}")
