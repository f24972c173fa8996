"""The learning rate, a function of the step alone, so that a resumed training needs no state for it."""

from __future__ import annotations

import math

from peirce_plugins.tasks.options import TrainingOptions


def learning_rate(options: TrainingOptions, step: int, total: int) -> float:
    """The learning rate of a step.

    Args:
        options: the training's options.
        step: which step, from 0.
        total: how many steps there are.
    """
    if step < options.warmup:
        return options.lr * (step + 1) / options.warmup
    if options.schedule == "constant":
        return options.lr
    progress = min(1.0, (step - options.warmup) / max(1, total - options.warmup))
    if options.schedule == "linear":
        return options.lr * (1 - progress)
    return options.lr * 0.5 * (1 + math.cos(math.pi * progress))
