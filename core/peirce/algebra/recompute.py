"""Recomputation in the backward pass, in place of memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def again(function: Callable[..., Tensor], *args: object) -> Tensor:
    """Call, and where gradients are wanted keep only the arguments, recomputing the rest in the backward pass."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        return checkpoint(function, *args, use_reentrant=False, preserve_rng_state=False)
    return function(*args)
