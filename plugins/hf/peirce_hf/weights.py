"""The values of a model that is first made without storage: those of another model, and those that its parts give."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from peirce.model import Model


def fill(target: Model, state: Mapping[str, Tensor], source: Model) -> None:
    """Give a model without storage copies of the tensors of a state that it has, and the other buffers of a model.

    Args:
        target: the model.
        state: by name; a tensor of another size is cut, or continued with zeros, along its first axis.
        source: where the buffers come from that no state has.
    """
    current = target.state_dict()
    target.load_state_dict(
        {name: _resized(state[name], current[name].shape) for name in current}, assign=True
    )
    buffers = dict(source.named_buffers())
    for name, buffer in list(target.named_buffers()):
        if buffer.is_meta:
            owner, _, leaf = name.rpartition(".")
            target.get_submodule(owner).register_buffer(leaf, buffers[name].clone(), persistent=False)


def values_of_parts(model: Model) -> dict[str, Tensor]:
    """The values that a new model's parts give to what they hold directly, beside linear maps and embeddings."""
    fresh = Model(model.plan, model.provenance)
    return {
        f"{owner}.{name}": value
        for owner, module in fresh.named_modules()
        if not isinstance(module, nn.Linear | nn.Embedding)
        for name, value in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    }


def _resized(value: Tensor, shape: torch.Size) -> Tensor:
    if value.shape == shape:
        return value.detach().clone()
    result = value.new_zeros(shape)
    count = min(len(value), len(result))
    result[:count] = value[:count]
    return result
