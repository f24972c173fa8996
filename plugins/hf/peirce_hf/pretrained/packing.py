"""Around layers of `transformers`: real tokens moved to the front, and answers to what layers ask of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from peirce.errors import InputError


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
        """bool [b, x], true at real tokens, in their new places; `ids` is [b, x]."""
        return torch.ones_like(ids, dtype=torch.bool) if self.real is None else self.pack(self.real)

    def pack(self, values: Tensor, axis: int = 1) -> Tensor:
        """[b, x, ...], or with tokens x at another axis, with the real tokens in front."""
        if values.dtype == torch.bool:  # which TensorRT does not scatter
            return self.pack(values.long(), axis).bool()
        place = self._like(values, axis)
        return values if place is None else torch.zeros_like(values).scatter(axis, place, values)

    def unpack(self, values: Tensor, axis: int = 1) -> Tensor:
        """[b, x, ...], or with tokens x at another axis, with each token where it was."""
        place = self._like(values, axis)
        return values if place is None else values.gather(axis, place)

    def _like(self, values: Tensor, axis: int) -> Tensor | None:
        if self.place is None:
            return None
        place = self.place
        for _ in range(axis - 1):
            place = place.unsqueeze(1)
        return place.view(*place.shape, *(1 for _ in values.shape[axis + 1 :])).expand_as(values)


def with_one_visible(real: Tensor) -> Tensor:
    """The mask `real`, bool [b, x], with the first token of an empty row: a softmax over nothing is NaN."""
    first = torch.arange(real.shape[1], device=real.device) == 0
    return real | (first & ~real.any(1, keepdim=True))


def assume_for_tracing(values: Tensor) -> AbstractContextManager[object]:
    """Answer questions of layers about values inside the block, where a traced or meta tensor has none.

    While a model is exported, layers take every value for finite. In float16, encoder layers of BART's family cut what
    is infinite to the largest numbers, and ask for it by `not torch.isfinite(x).all()`. A verification of the exported
    file shows where that would have mattered. On the meta device, what layers ask of values does not hold: they ask
    whether masks may be left out. Its product of grouped rows with the maps of experts knows bfloat16 alone; a row
    meets one map, so that the product with any of them has the shape and the cost.

    Args:
        values: an input of the layers, which says where they compute.
    """
    if torch.compiler.is_exporting():
        return _Replaced({torch.isfinite: lambda _: _AlwaysTrue()})
    if not values.is_meta:
        return nullcontext()
    return _Replaced(
        {
            Tensor.__bool__: lambda _: False,
            Tensor.item: lambda _: False,
            torch._grouped_mm: lambda rows, maps, **_: rows @ maps[0],
        }
    )


def shift_positions(decoder: nn.Module, by: Tensor) -> AbstractContextManager[object]:
    """Shift the positions of a decoder's rows by `by`, int64 [b, 1], inside the block.

    Where a decoder has no table of places, it knows tokens' distances alone.

    Raises:
        InputError: the decoder computes vectors of places instead of looking them up.
    """
    table = getattr(decoder, "embed_positions", None)
    if table is None:
        return nullcontext()
    if not (hasattr(table, "weight") or hasattr(table, "weights")):
        raise InputError(
            f"{type(decoder).__name__} counts positions of all rows alike, so cached targets must have one "
            "length; pad none, or set cache=False; such a model cannot be exported to generate"
        )
    return _PositionShift(table, by)


class _PositionShift(TorchFunctionMode):
    """Adds to the places that are looked up in a table, by `F.embedding` or, in M2M100, by `index_select`."""

    def __init__(self, table: Any, by: Tensor) -> None:
        super().__init__()
        self._table, self._by = table, by

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.embedding and args[1] is getattr(self._table, "weight", None):
            args = (args[0] + self._by, *args[1:])
        elif func is Tensor.index_select and args[0] is getattr(self._table, "weights", None):
            args = (*args[:2], (args[2].view(self._by.shape[0], -1) + self._by).flatten())
        return func(*args, **(kwargs or {}))


class _Replaced(TorchFunctionMode):
    """Calls others in place of some functions."""

    def __init__(self, others: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
        super().__init__()
        self._others = others

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._others.get(func, func)(*args, **(kwargs or {}))


class _AlwaysTrue:
    """The answer of `torch.isfinite`, which holds for all."""

    def all(self) -> bool:
        return True
