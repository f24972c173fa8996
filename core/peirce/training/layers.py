"""The layers of a model while it trains: found by name, and their `forward` replaced, in instances alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from peirce.errors import TaskError
from peirce.model import Model

LAYERS = "layers"
"""What an architecture calls the `ModuleList` of the modules that run one after another."""

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
def run_by(model: Model, wrap: Callable[[Forward], Forward], *, what: str) -> Iterator[None]:
    """Within it another function runs in place of each layer's `forward`; names of parameters and modules stay.

    Args:
        model: the model.
        wrap: makes the function of a layer's `forward`.
        what: the option that asks for it and what it does, for the error.

    Raises:
        TaskError: the architecture has no layers that could be told apart.
    """
    layers = layers_of(model)
    if not layers:
        raise TaskError(
            f"{what} layers, and architecture {model.spec.architecture!r} has no ModuleList called {LAYERS!r} that "
            "holds them; leave it off"
        )
    before = [vars(layer).get("forward") for layer in layers]
    try:
        for layer in layers:
            layer.forward = wrap(layer.forward)
        yield
    finally:
        for layer, own in zip(layers, before, strict=True):
            if own is None:
                vars(layer).pop("forward", None)  # the class has its own
            else:
                layer.forward = own
