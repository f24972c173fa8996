"""The errors of checks, and assertions on tensors whose messages show the place and both values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import getstate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from peirce.errors import PeirceError
from peirce_testing.examples import Tensors, normal

TOLERANCE = 1e-9
"""For float64, relative to the largest value: the checks ask for the same mathematics, not for the same rounding."""


class BrokenError(AssertionError):
    """A part breaks its contract; the message shows the values.

    Attributes:
        cause: what failures of one cause have in common: where a part raised, or what was found but for its numbers.
    """

    cause = ""


class NotRunError(Exception):
    """A check that cannot run in this environment; a failure in a strict run."""


class NotApplicableError(Exception):
    """A check that does not apply to this part, such as look-ahead in an operator that refuses causal scopes."""


def assert_all_equal(given: Tensors, expected: Tensors, what: str, tolerance: float = TOLERANCE) -> None:
    """Assert that tensors are equal, one by one; arguments as in `assert_equal`."""
    for (slot, one), (_, other) in zip(given, expected, strict=True):
        assert_equal(one.detach(), other.detach(), f"{slot.name} {what}", tolerance)


def assert_equal(actual: Tensor, expected: Tensor, what: str, tolerance: float = TOLERANCE) -> None:
    """Assert that two tensors are equal.

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
    assert_finite(actual, what)
    error = (actual.double() - expected.double()).abs()
    allowed = tolerance * max(1.0, float(expected.detach().double().abs().max()))
    if not bool((error <= allowed).all()):  # also when the expected value is NaN
        raise BrokenError(f"{what}: {_place(error, actual, expected)}; allowed {allowed:.1e}")


def assert_same_state(given: Mapping[str, Tensor], expected: Mapping[str, Tensor], when: str) -> None:
    """Assert that a state dict has not changed, to the bit.

    Raises:
        BrokenError: a tensor is missing, is new, or has changed.
    """
    if given.keys() != expected.keys():
        both = ((given, expected), (expected, given))
        new, gone = (", ".join(sorted(a.keys() - b.keys())) for a, b in both)
        raise BrokenError(
            f"the state dict {when} has new tensors: {new or 'none'}; missing: {gone or 'none'}"
        )
    for name, value in given.items():
        assert_equal(value, expected[name], f"the state {name} {when}", tolerance=0.0)


def assert_finite(values: Tensor, what: str) -> None:
    """Assert that every value is finite.

    Raises:
        BrokenError: one is NaN or infinite.
    """
    bad = ~values.isfinite()
    if bool(bad.any()):
        at = bad.nonzero()[0].tolist()
        raise BrokenError(
            f"{what}: {float(values[tuple(at)])} at {at}; {int(bad.sum())} values are not finite"
        )


def assert_zero(values: Tensor, what: str) -> None:
    """Assert that every value is zero.

    Raises:
        BrokenError: one is not.
    """
    assert_equal(values, torch.zeros_like(values), what, tolerance=0.0)


def assert_gradients(
    value: Callable[[], Tensor | None],
    leaves: dict[str, Tensor],
    generator: torch.Generator,
    *,
    steps: tuple[float, float] = (1e-6, 1e-8),
    relative: float = 1e-4,
    absolute: float = 1e-7,
) -> dict[str, Tensor | None]:
    """Assert that autograd's gradient of a scalar agrees with finite differences.

    Args:
        value: computes the scalar from the leaves; None where there is none.
        leaves: what it may depend on, by name.
        generator: of the directions.
        steps: of the differences. A kink between two points is not between two nearer ones.
        relative: tolerance of the gradient along a direction; float64 gives more, but for square roots of small
            numbers.
        absolute: tolerance at the first of the steps.

    Returns:
        The gradients that autograd gives, by name; None where the scalar does not depend on a leaf.

    Raises:
        BrokenError: a gradient differs.
    """
    total, tensors = value(), list(leaves.values())
    if total is None:
        return {}
    given: Sequence[Tensor | None] = [None] * len(tensors)
    if total.requires_grad:
        given = torch.autograd.grad(total, tensors, allow_unused=True)
    moves = [(tensor, normal(tensor.shape, generator)) for tensor in tensors]
    expected = [0.0 if g is None else float((g * d).sum()) for g, (_, d) in zip(given, moves, strict=True)]

    def misses(moves: list[tuple[Tensor, Tensor]], ours: float) -> float | None:
        """The slope along a direction, if it differs from autograd's."""
        for step in steps:
            theirs = _slope(value, moves, step)
            if abs(theirs - ours) <= relative * max(abs(ours), abs(theirs)) + absolute * (steps[0] / step):
                return None
        return theirs

    if misses(moves, sum(expected)) is not None:
        for name, move, ours in zip(leaves, moves, expected, strict=True):
            if (theirs := misses([move], ours)) is not None:
                cause = "; it is detached on its way" if not ours else ""
                raise BrokenError(
                    f"the gradient of {name} along a direction is {ours:.6g}, and finite differences give "
                    f"{theirs:.6g}{cause}"
                )
    return dict(zip(leaves, given, strict=True))


@torch.no_grad()
def _slope(value: Any, moves: list[tuple[Tensor, Tensor]], step: float) -> float:
    """The slope of a scalar along directions of some leaves."""
    found, before = [], [tensor.detach().clone() for tensor, _ in moves]
    for sign in (step, -step):
        for tensor, direction in moves:
            tensor.add_(direction, alpha=sign)
        found.append(float(value()))
        for (tensor, _), old in zip(moves, before, strict=True):
            tensor.copy_(old)
    return (found[0] - found[1]) / (2 * step)


def is_refused(call: Callable[[], object], where: str, by: type[Exception] = PeirceError) -> bool:
    """Whether a call is refused by an error of one line; it may also work.

    Raises:
        BrokenError: it raises another error, or its message is not one line.
    """
    try:
        call()
    except by as error:
        if len(str(error).strip().splitlines()) != 1:
            raise BrokenError(f"{where}, the message is {str(error)!r}; it must be one line") from error
        return True
    except Exception as error:
        message = f"{where}, it raises {type(error).__name__}: {error}; raise a {by.__name__}"
        raise BrokenError(message) from error
    return False


def _place(error: Tensor, actual: Tensor, expected: Tensor) -> str:
    at = torch.unravel_index(error.nan_to_num(torch.inf).argmax(), error.shape)
    given, wanted = actual[at].item(), expected[at].item()
    return f"{given} at {[int(i) for i in at]} where {wanted} is expected{_factor(actual, expected)}"


def _factor(actual: Tensor, expected: Tensor) -> str:
    """By which factor every value is off, if that is one; of one or two values only a factor that says something."""
    one, other = actual.detach().double().flatten(), expected.detach().double().flatten()
    counted = other.abs() > 1e-3 * other.abs().max()
    factors = one[counted] / other[counted]
    if not len(factors) or not torch.allclose(factors, factors[0], rtol=1e-6, atol=1e-9):
        return ""
    factor = float(factors[0])
    known = any(abs(factor - each) < 1e-6 for each in (-1, 0, 0.5, 2))
    telling = known or (len(factors) > 2 and abs(factor - 1) > 1e-3)
    return f", {factor:.6g} times that everywhere" if telling else ""


@contextmanager
def torch_unchanged(what: str, *, draws: bool = False) -> Iterator[None]:
    """Assert that the block leaves torch's defaults and the global random generators unchanged.

    Args:
        what: what is run, for the failure.
        draws: whether it may draw random numbers.

    Raises:
        BrokenError: one of them has changed.
    """

    def state() -> dict[str, object]:
        found: dict[str, object] = {
            "torch's default dtype": torch.get_default_dtype(),
            "torch's grad mode": torch.is_grad_enabled(),
        }
        if not draws:
            found["the random state of torch"] = torch.get_rng_state().tolist()
            found["the random state of Python or numpy"] = getstate(), repr(np.random.get_state())
        return found

    before = state()
    yield
    if changed := [name for name, value in state().items() if value != before[name]]:
        raise BrokenError(f"{what} changes {' and '.join(changed)}, which is global state")
