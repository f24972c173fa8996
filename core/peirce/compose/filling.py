"""What parameters are filled with while this thread makes a model, whatever other threads make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_FILLS = {
    *("uniform_", "normal_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_", "log_normal_"),
    *("kaiming_uniform_", "kaiming_normal_", "xavier_uniform_", "xavier_normal_", "trunc_normal_"),
}
_DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"}
"""Functions and methods of torch that take a generator."""


class Seeded(TorchFunctionMode):
    """Within it, what this thread draws comes from generators of one seed, and torch's own stay as they are.

    Args:
        seed: of the generator of each device.
        fill: whether parameters are filled; else they stay as memory is, which costs none until values are read into
            them. Buffers are filled either way, since parts may compute them.
    """

    def __init__(self, seed: int, *, fill: bool = True) -> None:
        super().__init__()
        self._seed, self._fill, self._generators = seed, fill, dict[torch.device, torch.Generator]()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Give a function that draws the generator of its device, if it was given none."""
        kwargs = dict(kwargs or {})
        first = kwargs.get("tensor", args[0] if args else None)
        if not self._fill and func.__name__ in _FILLS and isinstance(first, nn.Parameter):
            return first
        if func.__name__ in _FILLS | _DRAWS and kwargs.get("generator") is None:
            device = first.device if isinstance(first, Tensor) else kwargs.get("device")
            device = torch.device(device or torch.get_default_device())
            if device.type != "meta":
                if device not in self._generators:
                    self._generators[device] = torch.Generator(device).manual_seed(self._seed)
                kwargs["generator"] = self._generators[device]
        return func(*args, **kwargs)
