"""Gradient checkpointing: layers recompute their activations in the backward pass, and need not keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from peirce.errors import TaskError
from peirce.model import Model

LAYERS = "layers"
"""What an architecture calls the `ModuleList` of the modules that run one after another."""


def layers_of(model: Model) -> list[nn.Module]:
    """The layers of a model's network: the members of each `ModuleList` in it that is called `layers`."""
    return [
        layer
        for name, module in model.network.named_modules()
        if isinstance(module, nn.ModuleList) and name.rpartition(".")[2] == LAYERS
        for layer in module
    ]


@contextmanager
def recomputed(model: Model, *, active: bool = True) -> Iterator[None]:
    """Within it each layer keeps its inputs alone, and is recomputed in the backward pass.

    Dropout draws the same numbers both times. Names of parameters and modules stay as they are.

    Args:
        model: the model.
        active: nothing changes if false.

    Raises:
        TaskError: the architecture has no layers that could be told apart.
    """
    layers = layers_of(model) if active else []
    if active and not layers:
        raise TaskError(
            f"train.checkpointing recomputes layers, and architecture {model.spec.architecture!r} has no ModuleList "
            f"called {LAYERS!r} that holds them; leave it off"
        )
    try:
        for layer in layers:
            layer.forward = _recomputing(layer.forward)
        yield
    finally:
        for layer in layers:
            del layer.forward  # what stood in the instance; the class has its own


def _recomputing(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*inputs: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*inputs, **named)
        return checkpoint(forward, *inputs, use_reentrant=False, **named)

    return run
