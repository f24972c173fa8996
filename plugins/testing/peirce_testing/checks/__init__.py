"""The checks, by the question that they ask: what is declared, what it computes, what it may not see, how it survives.

`CHECKS` is the suite. Each check names the kinds of parts that it covers.
"""

from __future__ import annotations

from peirce_testing.check import Check
from peirce_testing.checks import (
    announced,
    declared,
    exporters,
    inputs,
    limits,
    losses,
    networks,
    numerics,
    options,
    record,
    state,
    symmetry,
    tasks,
    training,
    values,
)

_MODULES = (
    declared, options, inputs, values, record, limits, symmetry, numerics, training, losses, state, networks, tasks,
    exporters, announced,
)  # fmt: skip
CHECKS: tuple[Check, ...] = tuple(
    each for module in _MODULES for each in vars(module).values() if isinstance(each, Check)
)
"""Every check, in the order in which the suite runs them."""
