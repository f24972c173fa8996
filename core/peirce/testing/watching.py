"""What torch does while a part runs, seen from inside: calls in between, failures in the middle, dtypes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_TORCH = Path(torch.__file__).parent
_OURS = Path(__file__).parent
"""Where parts are made anew in the dtype of a check while it runs."""


class InTheMiddleError(RuntimeError):
    """What a check raises inside a part, to see what a failed call leaves behind."""


class Between(TorchDispatchMode):
    """Calls a function before some of torch's operations.

    Args:
        places: before which operations, counted from 0; every one if None.
        act: what is called.
    """

    def __init__(self, places: Iterable[int] | None = None, act: Callable[[], None] = lambda: None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.places, self.act = None if places is None else frozenset(places), act
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        place, self.count = self.count, self.count + 1
        if self.places is None or place in self.places:
            self.act()
        return func(*args, **(kwargs or {}))


class Narrowing(TorchDispatchMode):
    """Notes the operations that round floats of a dtype to a narrower one, or widen them again, with their lines."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype = dtype
        self.found: dict[str, torch.dtype] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [each for each in _flat((args, kwargs or {})) if each.is_floating_point()]
        result = func(*args, **(kwargs or {}))
        floats = [each for each in _flat((result,)) if each.is_floating_point()]
        if any(each.dtype == self.dtype for each in given):
            for each in floats:
                if each.dtype.itemsize < self.dtype.itemsize:
                    self.found.setdefault(_line(), each.dtype)
        if any(each.dtype == self.dtype for each in floats):
            # What was computed in a narrower dtype is as narrow when it is widened; a number is as exact as it is.
            for each in given:
                if each.dim() and each.dtype.itemsize < self.dtype.itemsize:
                    line = _line()
                    if not line.startswith(str(_OURS)):
                        self.found.setdefault(line, each.dtype)
        return result


def _flat(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return [tensor for value in values for tensor in _flat(value)]
    return []


def _line() -> str:
    """The line of code that called torch."""
    ours = Path(__file__)
    for call in reversed(traceback.extract_stack()):
        file = Path(call.filename)
        if file != ours and _TORCH not in file.parents:
            return f"{call.filename}:{call.lineno} in {call.name}: {call.line}"
    return "an unknown line"
