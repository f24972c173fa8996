"""The logarithm of the gamma function and its derivative from plain operations: ONNX has neither."""

from __future__ import annotations

import math

from torch import Tensor

SHIFT = 6
"""How far arguments are moved up before the asymptotic series, which is then good to 1e-9."""


def log_gamma(x: Tensor) -> Tensor:
    """log Gamma(x) for x > 0: Stirling's series at x + `SHIFT`, less the logarithms of what lies between."""
    product = x
    for step in range(1, SHIFT):
        product = product * (x + step)
    z = x + SHIFT
    inverse = 1 / z
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    return (z - 0.5) * z.log() - z + 0.5 * math.log(2 * math.pi) + series - product.log()


def digamma(x: Tensor) -> Tensor:
    """The derivative of `log_gamma`, for x > 0."""
    z = x + SHIFT
    square = 1 / (z * z)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    total = z.log() - 0.5 / z - series
    for step in range(SHIFT):
        total = total - 1 / (x + step)
    return total
