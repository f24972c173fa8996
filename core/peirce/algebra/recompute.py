"""Gradient checkpointing: the backward pass recomputes what would take memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def recomputed(function: Callable[..., Tensor], *args: object) -> Tensor:
    """Call, and where gradients are wanted keep only the arguments: the backward pass recomputes the rest."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        return checkpoint(function, *args, use_reentrant=False, preserve_rng_state=False)
    return function(*args)
