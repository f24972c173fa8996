"""Around layers of `transformers`: real tokens moved to the front, and answers to what layers ask of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Packing:
    """Real tokens moved to the front, which models of `transformers` count places from, and back.

    Args:
        real: bool [b, x]; None where no token is padding.
    """

    def __init__(self, real: Tensor | None) -> None:
        self.real = real
        self.place: Tensor | None = None
        if real is not None:
            before = real.long().cumsum(1)
            self.place = torch.where(real, before - 1, before[:, -1:] + (~real).long().cumsum(1) - 1)

    def mask(self, ids: Tensor) -> Tensor:
        """int64 [b, x], 1 at real tokens, in their new places; `ids` is [b, x]."""
        return torch.ones_like(ids) if self.real is None else self.pack(self.real.long())

    def pack(self, values: Tensor) -> Tensor:
        """[b, x, ...] with the real tokens in front."""
        place = self._like(values)
        return values if place is None else torch.zeros_like(values).scatter(1, place, values)

    def unpack(self, values: Tensor) -> Tensor:
        """[b, x, ...] with each token where it was."""
        place = self._like(values)
        return values if place is None else values.gather(1, place)

    def _like(self, values: Tensor) -> Tensor | None:
        if self.place is None:
            return None
        place = self.place if values.dim() == 2 else self.place.unsqueeze(2)
        return place.expand_as(values)


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
