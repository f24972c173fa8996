"""Comparing what a part gave with what it should give; a miss shows the place and both values."""

from __future__ import annotations

import torch
from torch import Tensor

from peirce.testing.failures import BrokenError

TOLERANCE = 1e-9
"""For float64, relative to the largest value: the checks ask for the same mathematics, not for the same rounding."""


def same(actual: Tensor, expected: Tensor, what: str, tolerance: float = TOLERANCE) -> None:
    """Hold two tensors equal.

    Args:
        actual: what the part gave.
        expected: what it should give.
        what: what the tensors are, for the failure.
        tolerance: of the largest expected value, or of 1 if that is smaller; 0 asks for the same bits.

    Raises:
        BrokenError: shapes or values differ, or a value is not finite.
    """
    if actual.shape != expected.shape:
        raise BrokenError(f"{what}: shape {list(actual.shape)} where {list(expected.shape)} is expected")
    if not actual.numel():
        return
    if not actual.is_floating_point():
        wrong = actual != expected
        if bool(wrong.any()):
            raise BrokenError(f"{what}: {_place(wrong.double(), actual, expected)}")
        return
    finite(actual, what)
    error = (actual.double() - expected.double()).abs()
    allowed = tolerance * max(1.0, float(expected.detach().double().abs().max()))
    if not bool((error <= allowed).all()):  # also when the expected value is NaN
        raise BrokenError(f"{what}: {_place(error, actual, expected)}; allowed {allowed:.1e}")


def finite(values: Tensor, what: str) -> None:
    """Hold every value finite.

    Raises:
        BrokenError: one is NaN or infinite.
    """
    bad = ~values.isfinite()
    if bool(bad.any()):
        at = bad.nonzero()[0].tolist()
        raise BrokenError(
            f"{what}: {float(values[tuple(at)])} at {at}, and {int(bad.sum())} such values in all"
        )


def zero(values: Tensor, what: str) -> None:
    """Hold every value equal to zero.

    Raises:
        BrokenError: one is not.
    """
    same(values, torch.zeros_like(values), what, tolerance=0.0)


def _place(error: Tensor, actual: Tensor, expected: Tensor) -> str:
    at = torch.unravel_index(error.nan_to_num(torch.inf).argmax(), error.shape)
    index = [int(i) for i in at]
    given, wanted = actual[at].item(), expected[at].item()
    return f"{given} at {index} where {wanted} is expected"
