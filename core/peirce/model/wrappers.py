"""What torch and its trainers wrap around a model, taken off where a function needs the model itself."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from peirce.errors import InputError, ModelFileError
from peirce.model.model import Model
from peirce.model.published import dtype_differences, list_differences, weight_differences

_WRAPPING = {"accelerate", "deepspeed", "lightning", "lightning_fabric", "torch"}
"""The packages whose classes run the one module within them as it is; its attribute is one of these."""
_INNER = ("_orig_mod", "module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_GATHER = (
    "gather it first: in every process `state = get_model_state_dict(model, options=StateDictOptions("
    "full_state_dict=True))` of torch.distributed.checkpoint.state_dict; then, in one, `whole = "
    "peirce.build(model.spec)` and `whole.load_state_dict(state)`, and give `whole`"
)


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
        inner = [getattr(found, name) for name in _INNER if isinstance(getattr(found, name, None), nn.Module)]
        if not inner or type(found).__module__.partition(".")[0] not in _WRAPPING:
            break
        if "FullyShardedDataParallel" in type(found).__name__:
            raise _sharded_error(type(found).__name__)
        found = inner[0]
    if isinstance(found, Model):
        refuse_sharded(found)
        return found
    modules = model.named_modules() if isinstance(model, nn.Module) else ()
    place = next((name for name, each in modules if isinstance(each, Model)), "")
    advice = f"pass its `{place}`" if place else "`peirce.build` and `peirce.load` give one"
    raise InputError(f"a peirce.Model is needed here, and a {type(model).__name__} was given; {advice}")


def refuse_sharded(model: nn.Module) -> None:
    """Refuse a model of which this process has only a part of the weights, as FSDP leaves it, with an `InputError`."""
    for parameter in model.parameters():
        if hasattr(parameter, "full_tensor") or hasattr(parameter, "_is_flat_param"):  # DTensor; FSDP's own
            raise _sharded_error(type(parameter).__name__)


def _sharded_error(kind: str) -> InputError:
    return InputError(f"the model's weights are sharded over processes ({kind}); {_GATHER}")


def saved_state(model: nn.Module, needed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of a model under the names that its spec gives, without those of wrappers around its parts.

    Args:
        model: the model.
        needed: the state dict that the spec makes, of which names, shapes and kinds of dtypes count.

    Raises:
        InputError: the weights are sharded over processes.
        ModelFileError: they are not those of the spec, so that the saved model could not be loaded.
    """
    refuse_sharded(model)
    state = {unwrapped_name(name, needed): value for name, value in model.state_dict().items()}
    problems = weight_differences(state, {name: value.shape for name, value in needed.items()})
    problems |= dtype_differences(state, needed)
    problems["without dense values"] = [
        name
        for name, value in state.items()
        if name in needed and (value.is_meta or value.layout != torch.strided)
    ]
    if any(problems.values()):
        raise ModelFileError(
            "the model cannot be saved, since its weights are not those that its spec makes, and it could not be "
            f"loaded: {list_differences(problems)}. Undo what changed its parts (prune.remove, "
            "remove_parametrizations, merge_and_unload of adapters), or change the spec and build it anew; nothing "
            "was written"
        )
    return state


def unwrapped_name(name: str, known: Container[str]) -> str:
    """The name of a tensor without those of wrappers around a part, unless it is known as it is."""
    return name if name in known else ".".join(part for part in name.split(".") if part not in _INNER)
