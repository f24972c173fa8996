"""Gradient checkpointing: layers recompute their activations in the backward pass, and need not keep them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from peirce.model import Model
from peirce.training.layers import Forward, run_by


@contextmanager
def recomputed(model: Model, *, active: bool = True) -> Iterator[None]:
    """Within it each layer keeps its inputs alone, and is recomputed in the backward pass.

    Dropout draws the same numbers both times.

    Args:
        model: the model.
        active: nothing changes if false.

    Raises:
        TaskError: the architecture has no layers that could be told apart.
    """
    if not active:
        yield
        return
    with run_by(model, _recomputing, what="train.checkpointing recomputes"):
        yield


def _recomputing(forward: Forward) -> Forward:
    def run(*inputs: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*inputs, **named)
        return checkpoint(forward, *inputs, use_reentrant=False, **named)

    return run
