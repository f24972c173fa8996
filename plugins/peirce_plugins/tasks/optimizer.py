"""The optimiser, and its state under the names of the parameters."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from peirce.errors import TaskError
from torch import Tensor, nn

from peirce_plugins.tasks.options import TrainingOptions


def adamw(parameters: Mapping[str, nn.Parameter], options: TrainingOptions) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices and tables, and none on biases and scales."""
    trained = [p for p in parameters.values() if p.requires_grad]
    if not trained:
        raise TaskError("the model has no parameters to train")
    groups = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    betas = (options.beta1, options.beta2)
    return torch.optim.AdamW(
        [g for g in groups if g["params"]], lr=options.lr, betas=betas, eps=options.epsilon
    )


def optimizer_tensors(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]
) -> dict[str, Tensor]:
    """The optimiser's state by the names of the parameters."""
    return {
        f"{name}/{key}": value
        for name, parameter in parameters.items()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]
) -> None:
    """Put back what `optimizer_tensors` gave."""
    for full, value in tensors.items():
        name, _, key = full.rpartition("/")
        parameter = parameters[name]
        # AdamW counts steps on the CPU, whatever the device of the parameters.
        optimizer.state[parameter][key] = value if key == "step" else value.to(parameter.device)
