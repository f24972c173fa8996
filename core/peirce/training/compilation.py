"""`torch.compile` of a model's layers: each as a whole, with one graph for every length of the inputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from peirce.errors import TaskError
from peirce.model import Model
from peirce.training.layers import Forward, run_by

BACKEND = "inductor"
"""Torch's own backend, which makes kernels."""


@contextmanager
def compiled(model: Model, *, active: bool = True) -> Iterator[None]:
    """Within it `torch.compile` runs each layer. Layers of one kind share their graph.

    Args:
        model: the model.
        active: nothing changes if false.

    Raises:
        TaskError: the architecture has no layers that could be told apart; within it, torch cannot compile one.
    """
    if not active:
        yield
        return
    with run_by(model, _compiling, what="train.compile compiles"), warnings.catch_warnings():
        # While it traces, torch looks at gradients that inputs of a layer do not keep.
        warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
        yield


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
