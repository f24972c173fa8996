"""The learning rate, a function of the step alone, so that a resumed training needs no state for it."""

from __future__ import annotations

import math

from peirce.training.options import TrainingOptions


def warmup_steps(options: TrainingOptions, total: int) -> int:
    """Over how many of all steps the learning rate rises."""
    return options.warmup or round(options.warmup_ratio * total)


def learning_rate(options: TrainingOptions, step: int, total: int) -> float:
    """The learning rate of a step.

    Args:
        options: the training's options.
        step: which step, from 0.
        total: how many steps there are.
    """
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
