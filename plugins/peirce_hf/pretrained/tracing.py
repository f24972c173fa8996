"""A choice that layers of `transformers` make by their values, which a graph cannot make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def without_choices() -> AbstractContextManager[object]:
    """While a model is exported, layers take every value for finite.

    In float16, encoder layers of BART's family cut what is infinite to the largest numbers, and ask for it by
    `not torch.isfinite(x).all()`. A verification of the exported file shows where that would have mattered.
    """
    return _Finite() if torch.compiler.is_exporting() else nullcontext()


class _Finite(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return _Yes() if func is torch.isfinite else func(*args, **(kwargs or {}))


class _Yes:
    """The answer of `torch.isfinite`, which holds for all."""

    def all(self) -> bool:
        return True
