"""Models whose tensors are spread over the processes of a training (FSDP), and their whole tensors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from peirce.model import Model
from peirce_training.batches import Objective
from peirce_training.layers import layers_of


def shard(objective: Objective, processes: int) -> None:
    """Spread the tensors of a model over the processes: layer by layer, and the rest as one unit.

    That unit is the objective, because a task may run parts of its model by themselves, and whatever it runs must find
    its tensors gathered. Torch shards here, not accelerate, which does so on accelerators alone.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(next(objective.parameters()).device.type, (processes,))
    for layer in layers_of(objective.model):
        fully_shard(layer, mesh=mesh)
    fully_shard(objective, mesh=mesh)


def set_synchronisation(objective: Objective, *, now: bool) -> None:
    """Set whether the next backward pass of a sharded model ends a step and sums gradients over processes."""
    sharded = cast(Any, objective)
    sharded.set_requires_gradient_sync(now)
    sharded.set_is_last_backward(now)


def whole_tensor(tensor: Tensor) -> Tensor:
    """A tensor as a whole; every process that holds a part of it must ask for it together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def place_like(pattern: Tensor, tensor: Tensor) -> Tensor:
    """A whole tensor on the device of another one, and spread over processes as that one is."""
    tensor = tensor.to(pattern.device)
    if not isinstance(pattern, DTensor):
        return tensor
    return distribute_tensor(tensor, pattern.device_mesh, pattern.placements, src_data_rank=None)


def whole_tensors(model: Model, frozen: Collection[str] = ()) -> dict[str, Tensor]:
    """The state of a model with whole tensors, without the frozen; every process must ask for it together."""
    return {
        name: whole_tensor(tensor.detach())
        for name, tensor in model.state_dict().items()
        if name not in frozen
    }


def load_whole_tensors(model: Model, state: Mapping[str, Tensor], frozen: Collection[str] = ()) -> None:
    """Put whole tensors into a model, sharded or not; those that are frozen stay as they are."""
    current = model.state_dict()
    placed = {
        name: place_like(current[name], tensor) if name in current else tensor
        for name, tensor in state.items()
    }
    model.load_state_dict({name: current[name] for name in frozen} | placed)
