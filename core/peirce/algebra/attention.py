"""The weights of attention, read from outside: they pass through an empty module, and hooks on it read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Attended(nn.Module):
    """Hands on the weights that rows give to the tokens that they attend to.

    It has no parameters and computes nothing: state dicts, traced graphs and outputs are those of a network without
    it. An architecture puts one behind each attention softmax of its own.
    """

    def forward(self, weights: Tensor) -> Tensor:
        """[b, x, a, h], of x over the tokens a that it attends to, to the same tensor."""
        return weights

    @property
    def is_read(self) -> bool:
        """Whether a hook reads the weights in this pass, so that they should come whole and not in blocks."""
        return bool(self._forward_hooks)


class AttentionWeights(NamedTuple):
    """What was read at one place: the name of its module in the model, and the weights, [b, x, a, h]."""

    place: str
    weights: Tensor


@contextmanager
def attention_of(model: nn.Module) -> Iterator[list[AttentionWeights]]:
    """Within it, each run of a model adds the weights of its attention to the list.

    A module that runs twice adds its weights twice. In training some weights are dropped. A graph that is being
    traced, or was compiled before, adds nothing: run the model itself.

    Args:
        model: the model; without attention the list stays empty.

    Yields:
        The weights in the order in which the network comes to them, detached, in its own dtype.
    """
    found: list[AttentionWeights] = []

    def reading(place: str) -> Any:
        def read(module: nn.Module, inputs: tuple[Any, ...], weights: Tensor) -> None:
            if not torch.compiler.is_compiling():
                found.append(AttentionWeights(place, weights.detach().clone()))

        return read

    places = [(name, module) for name, module in model.named_modules() if isinstance(module, Attended)]
    hooks = [module.register_forward_hook(reading(name)) for name, module in places]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
