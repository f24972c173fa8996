"""The layers of a model while it trains: found by name, compiled, or recomputed in the backward pass."""

from __future__ import annotations

import warnings
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
BACKEND = "inductor"
"""Torch's own backend of `torch.compile`, which makes kernels."""

Forward = Callable[..., Any]


def layers_of(model: Model) -> list[nn.Module]:
    """The layers of a model's network: the members of each `ModuleList` in it that is called `layers`."""
    return [
        layer
        for name, module in model.network.named_modules()
        if isinstance(module, nn.ModuleList) and name.rpartition(".")[2] == LAYERS
        for layer in module
    ]


@contextmanager
def wrap_layers(model: Model, *, compiling: bool = False, recomputing: bool = False) -> Iterator[None]:
    """Within it layers are compiled or recomputed; `forward` is replaced in instances, so names of parameters stay.

    Args:
        model: the model.
        compiling: whether `torch.compile` runs each layer as a whole, with one graph for every length of the inputs;
            layers of one kind share their graph.
        recomputing: whether each layer keeps its inputs alone, and is recomputed, as it was compiled, in the backward
            pass. Dropout draws the same numbers both times.

    Raises:
        TaskError: the architecture has no `ModuleList` of layers; within the block, torch cannot compile a layer.
    """
    layers = layers_of(model) if compiling or recomputing else []
    if (compiling or recomputing) and not layers:
        raise TaskError(
            f"train.compile and train.checkpointing are for layers, and architecture {model.spec.architecture!r} has "
            f"no ModuleList called {LAYERS!r}; leave them off"
        )
    with warnings.catch_warnings():
        # While it traces, torch looks at gradients that inputs of a layer do not keep.
        warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
        try:
            for layer in layers:
                forward = _with_compilation(layer.forward) if compiling else layer.forward
                layer.forward = _with_checkpointing(forward) if recomputing else forward
            yield
        finally:
            for layer in layers:
                vars(layer).pop("forward", None)


def _with_checkpointing(forward: Forward) -> Forward:
    def run(*inputs: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*inputs, **named)
        return checkpoint(forward, *inputs, use_reentrant=False, **named)

    return run


def _with_compilation(forward: Forward) -> Forward:
    from torch._dynamo.exc import TorchDynamoException

    graph = torch.compile(forward, backend=BACKEND, dynamic=True, fullgraph=True)

    def run(*inputs: Any, **named: Any) -> Any:
        try:
            return graph(*inputs, **named)
        except TorchDynamoException as error:
            message = " ".join(str(error).split())[:500]
            raise TaskError(
                f"train.compile: torch cannot compile a layer ({message}); on a CPU it needs a C++ compiler, such as "
                "g++. Leave it off, or install what it lacks"
            ) from error

    return run
