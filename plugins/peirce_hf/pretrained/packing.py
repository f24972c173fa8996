"""Real tokens moved to the front, and back."""

from __future__ import annotations

import torch
from torch import Tensor


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
