"""The optimisers, their state under the names of the parameters, and the learning rate as a function of the step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from peirce.errors import TaskError
from peirce_training.options import TrainingOptions
from peirce_training.sharding import place_like, whole_tensor

STATE_KEYS = ("step", "exp_avg", "exp_avg_sq")
"""The entries of an optimiser's state that the next step depends on."""
_LARGEST_NORM = 10.0
"""The bound of the norm of a tensor in LAMB's trust ratio."""


def make_optimizer(parameters: Mapping[str, nn.Parameter], options: TrainingOptions) -> torch.optim.Optimizer:
    """The optimiser that the options name.

    Raises:
        TaskError: there is nothing to train.
    """
    trained = [p for p in parameters.values() if p.requires_grad]
    if not trained:
        raise TaskError("the model has no parameters to train")
    # Biases and scales are exempt from LAMB's trust ratio where they are from decay, as in its reference.
    spared, decay = options.decay == "matrices", options.weight_decay
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": decay, "adam": False},
        {
            "params": [p for p in trained if p.dim() <= 1],
            "weight_decay": 0.0 if spared else decay,
            "adam": spared,
        },
    ]
    groups = [group for group in groups if group["params"]]
    betas = (options.beta1, options.beta2)
    if options.optimizer == "lamb":
        return Lamb(groups, lr=options.lr, betas=betas, eps=options.epsilon)
    return torch.optim.AdamW(groups, lr=options.lr, betas=betas, eps=options.epsilon, fused=True)


class Lamb(torch.optim.Optimizer):
    """LAMB, also where each process holds a part of each tensor: norms are those of the whole tensors.

    Decay belongs to the update whose norm the trust ratio is made of, without bias correction (You et al., 2020,
    Algorithm 2); what corrected the bias would make the first step ten times as long.

    Args:
        groups: groups of parameters, each with `weight_decay` and, where there is no trust ratio, `adam`.
        lr: the learning rate.
        betas: decays of both moments.
        eps: what is added to the root of the second moment.
    """

    def __init__(
        self, groups: list[dict[str, Any]], *, lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                mean, square = state["exp_avg"], state["exp_avg_sq"]
                mean.mul_(first).add_(p.grad, alpha=1 - first)
                square.mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                update = mean / (square.sqrt() + group["eps"])
                if group["weight_decay"]:
                    update.add_(p, alpha=group["weight_decay"])
                ratio = 1.0 if group["adam"] else _trust_ratio(p, update, group["eps"])
                p.sub_(update * (group["lr"] * ratio))


def _trust_ratio(parameter: Tensor, update: Tensor, epsilon: float) -> Tensor:
    """How large a step may be, by the norms of a tensor and of its update: a scalar that every process agrees on."""
    weight = whole_tensor(torch.linalg.vector_norm(parameter)).clamp(max=_LARGEST_NORM)
    change = whole_tensor(torch.linalg.vector_norm(update))
    return torch.where((weight != 0) & (change != 0), weight / (change + epsilon), 1.0)


def warmup_steps(options: TrainingOptions, total: int) -> int:
    """Over how many of all steps the learning rate rises."""
    return options.warmup or round(options.warmup_ratio * total)


def learning_rate(options: TrainingOptions, step: int, total: int) -> float:
    """The learning rate of a step, counted from 0, of `total` steps; a resumed training needs no state for it."""
    warmup = warmup_steps(options, total)
    if step < warmup:
        return options.lr * (step + 1) / warmup
    if options.schedule == "constant":
        return options.lr
    if options.schedule == "thirds":
        return max(options.end_lr, options.lr * 0.1 ** min(2, 3 * step // max(1, total)))
    left = 1 - min(1.0, (step - warmup) / max(1, total - warmup))
    if options.schedule == "cosine":
        left = 0.5 * (1 - math.cos(math.pi * left))
    elif options.schedule == "poly":
        left **= options.power
    return options.end_lr + (options.lr - options.end_lr) * left


def optimizer_tensors(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]
) -> dict[str, Tensor]:
    """The optimiser's state by the names of the parameters, whole; every process must ask for it together."""
    return {
        f"{name}/{key}": whole_tensor(state[key])
        for name, parameter in parameters.items()
        for state in (optimizer.state.get(parameter, {}),)
        for key in STATE_KEYS
        if key in state
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]
) -> None:
    """Put back what `optimizer_tensors` gave."""
    for key, value in tensors.items():
        name, _, entry = key.rpartition("/")
        parameter = parameters[name]
        # Steps are counted in a tensor without axes, on the device of the parameters.
        optimizer.state[parameter][entry] = (
            value.to(parameter.device) if entry == "step" else place_like(parameter, value)
        )
