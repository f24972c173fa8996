"""What layers of `transformers` ask of values, answered where there are none: in a graph, and on the meta device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


def without_choices(values: Tensor) -> AbstractContextManager[object]:
    """While it is entered, what layers ask of values is answered for them, where there are none.

    While a model is exported, layers take every value for finite. In float16, encoder layers of BART's family cut what
    is infinite to the largest numbers, and ask for it by `not torch.isfinite(x).all()`. A verification of the exported
    file shows where that would have mattered. On the meta device, what layers ask of values does not hold: they ask
    whether masks may be left out.

    Args:
        values: an input of the layers, which says where they compute.
    """
    if torch.compiler.is_exporting():
        return _Answering({torch.isfinite: _Yes()})
    return _Answering({Tensor.__bool__: False}) if values.is_meta else nullcontext()


class _Answering(TorchFunctionMode):
    """Gives answers in place of calling some functions."""

    def __init__(self, answers: Mapping[Callable[..., Any], Any]) -> None:
        super().__init__()
        self._answers = answers

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._answers[func] if func in self._answers else func(*args, **(kwargs or {}))


class _Yes:
    """The answer of `torch.isfinite`, which holds for all."""

    def all(self) -> bool:
        return True
