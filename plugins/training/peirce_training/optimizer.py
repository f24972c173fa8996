"""The optimisers, their state under the names of the parameters, and the learning rate as a function of the step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from peirce.errors import TaskError
from peirce_training.options import TrainingOptions
from peirce_training.sharding import place_like, whole_tensor
from peirce_training.trainable import stands_for

STATE_KEYS = ("step", "exp_avg", "exp_avg_sq")
"""The entries of an optimiser's state that the next step depends on."""


def make_optimizer(
    parameters: Mapping[str, nn.Parameter], options: TrainingOptions, new: Collection[str] = ()
) -> torch.optim.Optimizer:
    """The optimiser that the options name.

    Its groups have `scale`, a factor of the learning rate, and `warmup`, the steps over which it rises.

    Args:
        parameters: by name; those without gradients are left out.
        options: of the training.
        new: the names that `new` stands for.

    Raises:
        TaskError: there is nothing to train.
    """
    by_kind: dict[tuple[bool, float, int | None], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in parameters.items():
        if parameter.requires_grad:
            rate, warmup = (
                next((each for pattern, each in table.items() if stands_for(pattern, name, new)), None)
                for table in (options.rates, options.warmups)
            )
            scale = 1.0 if rate is None else rate / options.lr
            by_kind[parameter.dim() <= 1, scale, None if warmup is None else int(warmup)].append(parameter)
    if not by_kind:
        raise TaskError("the model has no parameters to train")
    groups: list[dict[str, Any]] = [
        {
            "params": members,
            "weight_decay": 0.0 if single and options.decay == "matrices" else options.weight_decay,
            "scale": scale,
            "warmup": warmup,
        }
        for (single, scale, warmup), members in sorted(by_kind.items(), key=lambda each: each[0][0])
    ]
    common: dict[str, Any] = {
        "lr": options.lr,
        "betas": (options.beta1, options.beta2),
        "eps": options.epsilon,
    }
    if options.optimizer == "adamw":
        return torch.optim.AdamW(groups, **common, fused=True)
    return Lamb(groups, **common, layerwise=options.optimizer == "lamb")


class Lamb(torch.optim.Optimizer):
    """LAMB, also where each process holds a part of each tensor: norms are those of the whole tensors.

    It is apex's `FusedLAMB`, which FOLNet was pretrained with: You et al. (2020), Algorithm 2, where phi is the
    identity and a tensor without weight decay has no trust ratio. Clipping the gradients is the training's own step.

    Args:
        groups: groups of parameters, each with `weight_decay`.
        lr: the learning rate.
        betas: decays of both moments.
        eps: what is added to the root of the second moment.
        layerwise: whether there are a trust ratio and a correction of the moments' bias. Without both it is the
            `FusedAdam` with `bias_correction=False` that FOLNet was fine-tuned with.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        layerwise: bool = True,
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps})
        self.layerwise = layerwise

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
                    state["step"] = torch.zeros(())
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                mean, square = state["exp_avg"], state["exp_avg_sq"]
                state["step"] += 1
                mean.mul_(first).add_(p.grad, alpha=1 - first)
                square.mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                if self.layerwise:
                    count = float(state["step"])
                    mean, square = mean / (1 - first**count), square / (1 - second**count)
                update = mean / (square.sqrt() + group["eps"])
                if group["weight_decay"]:
                    update.add_(p, alpha=group["weight_decay"])
                    if self.layerwise:
                        update *= _trust_ratio(p, update)
                p.sub_(update, alpha=group["lr"])


def _trust_ratio(parameter: Tensor, update: Tensor) -> Tensor:
    """How large a step may be, by the norms of a tensor and of its update: a scalar that every process agrees on."""
    weight, change = (whole_tensor(torch.linalg.vector_norm(each)) for each in (parameter, update))
    return torch.where((weight != 0) & (change != 0), weight / change, 1.0)


def warmup_steps(options: TrainingOptions, total: int) -> int:
    """Over how many of all steps the learning rate rises."""
    return options.warmup or round(options.warmup_ratio * total)


def learning_rate(options: TrainingOptions, step: int, total: int, warmup: int | None = None) -> float:
    """The learning rate of a step, counted from 0, of `total` steps; a resumed training needs no state for it."""
    warmup = warmup_steps(options, total) if warmup is None else warmup
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
