"""Arithmetic in at least float32, whatever the precision of a model's weights and under autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peirce.parts.tracing import dense


def full_precision(values: Tensor) -> AbstractContextManager[Any]:
    """A context in which autocast leaves operations on the device of these values alone."""
    kind = values.device.type
    if dense(values) or not torch.is_autocast_enabled(kind):
        return nullcontext()
    return torch.autocast(kind, enabled=False)


class Linear(nn.Linear):
    """A linear map in the precision of what it maps, not in that of its weights."""

    def forward(self, values: Tensor) -> Tensor:
        """[..., n] -> [..., m]."""
        bias = None if self.bias is None else self.bias.to(values.dtype)
        return F.linear(values, self.weight.to(values.dtype), bias)
