"""The angles that sinusoidal vectors of positions and of distances are made of."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from peirce.algebra import at_least_float32

LONGEST_WAVE = 10_000.0
"""The longest wavelength, divided by 2 pi."""


def angles(index: Tensor, width: int, like: Tensor) -> Tensor:
    """t / 10000 ** (2 i / width) for each index t and pair i of channels, the last one half used where `width` is odd.

    Args:
        index: int64 [...].
        width: channels of the vectors.
        like: of the dtype and the device of the model; angles need the precision even where the model has none.

    Returns:
        [..., i], in float32 at least.
    """
    exact = at_least_float32(like).dtype
    pairs = torch.arange((width + 1) // 2, dtype=exact, device=index.device)
    return index.to(exact).unsqueeze(-1) * (pairs * (-2 * math.log(LONGEST_WAVE) / width)).exp()
