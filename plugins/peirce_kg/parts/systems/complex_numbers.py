"""Complex numbers as the exported graph has them: real parts, then imaginary ones, along the last axis."""

from __future__ import annotations

import torch
from torch import Tensor


def times(left: Tensor, right: Tensor) -> Tensor:
    """The product of each number with its partner: [..., d1], [..., d1] -> [..., d1]."""
    a, b = left.chunk(2, -1)
    c, d = right.chunk(2, -1)
    return torch.cat([a * c - b * d, a * d + b * c], -1)


def conjugate(values: Tensor) -> Tensor:
    """[..., d1] -> [..., d1]."""
    real, imaginary = values.chunk(2, -1)
    return torch.cat([real, -imaginary], -1)
