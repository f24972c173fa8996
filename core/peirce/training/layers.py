"""The layers of a model while it trains: found by name, compiled, or recomputed in the backward pass.

Their `forward` is replaced in instances alone, so that names of parameters and modules stay.
"""

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
def _run_by(model: Model, wrap: Callable[[Forward], Forward], what: str) -> Iterator[None]:
    """Within it `wrap(forward)` runs in place of each layer's `forward`."""
    layers = layers_of(model)
    if not layers:
        raise TaskError(
            f"{what} layers, and architecture {model.spec.architecture!r} has no ModuleList called {LAYERS!r} that "
            "holds them; leave it off"
        )
    before = [vars(layer).get("forward") for layer in layers]  # set where one is within another
    try:
        for layer in layers:
            layer.forward = wrap(layer.forward)
        yield
    finally:
        for layer, own in zip(layers, before, strict=True):
            del layer.forward
            if own is not None:
                layer.forward = own


@contextmanager
def recomputed(model: Model) -> Iterator[None]:
    """Within it each layer keeps its inputs alone, and is recomputed in the backward pass.

    Dropout draws the same numbers both times.

    Raises:
        TaskError: the architecture has no layers that could be told apart.
    """
    with _run_by(model, _recomputing, "train.checkpointing recomputes"):
        yield


@contextmanager
def compiled(model: Model) -> Iterator[None]:
    """Within it `torch.compile` runs each layer as a whole, with one graph for every length of the inputs.

    Layers of one kind share their graph.

    Raises:
        TaskError: the architecture has no layers that could be told apart; within it, torch cannot compile one.
    """
    with _run_by(model, _compiling, "train.compile compiles"), warnings.catch_warnings():
        # While it traces, torch looks at gradients that inputs of a layer do not keep.
        warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
        yield


def _recomputing(forward: Forward) -> Forward:
    def run(*inputs: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*inputs, **named)
        return checkpoint(forward, *inputs, use_reentrant=False, **named)

    return run


def _compiling(forward: Forward) -> Forward:
    from torch._dynamo.exc import TorchDynamoException

    graph = torch.compile(forward, backend=BACKEND, dynamic=True, fullgraph=True)

    def run(*inputs: Any, **named: Any) -> Any:
        try:
            return graph(*inputs, **named)
        except TorchDynamoException as error:
            said = " ".join(str(error).split())[:500]
            raise TaskError(
                f"train.compile: torch cannot compile a layer ({said}); on a CPU it needs a C++ compiler, such as g++. "
                "Leave it off, or install what it lacks"
            ) from error

    return run
