"""The weights of a model whose parts torch and its trainers have wrapped, under the names that its spec gives."""

from __future__ import annotations

from collections.abc import Container, Mapping

import torch
from torch import Tensor, nn

from peirce.errors import InputError, ModelFileError
from peirce.model.published import dtype_differences, list_differences, weight_differences

INNER = ("_orig_mod", "module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_GATHER = (
    "gather it first: in every process `state = get_model_state_dict(model, options=StateDictOptions("
    "full_state_dict=True))` of torch.distributed.checkpoint.state_dict; then, in one, `whole = "
    "peirce.build(model.spec)` and `whole.load_state_dict(state)`, and give `whole`"
)


def refuse_sharded(model: nn.Module) -> None:
    """Refuse a model of which this process has only a part of the weights, as FSDP leaves it, with an `InputError`."""
    for parameter in model.parameters():
        if hasattr(parameter, "full_tensor") or hasattr(parameter, "_is_flat_param"):  # DTensor; FSDP's own
            raise sharded_error(type(parameter).__name__)


def sharded_error(kind: str) -> InputError:
    """The error of weights that are sharded by a class."""
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
    return name if name in known else ".".join(part for part in name.split(".") if part not in INNER)
