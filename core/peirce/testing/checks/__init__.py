"""The checks, by the question that they ask: what is declared, what it computes, what it may not see, how it survives.

`CHECKS` is the suite. Each check names the kinds of parts that it covers.
"""

from __future__ import annotations

from peirce.testing.check import Check
from peirce.testing.checks import declared, models, numerics, state, symmetry, values

CHECKS: tuple[Check, ...] = (
    declared.declaration,
    declared.shapes,
    declared.dtypes,
    values.reference,
    values.sizes,
    values.purity,
    values.long_sequences,
    symmetry.batch,
    symmetry.token_permutation,
    symmetry.scope_forms,
    symmetry.padding,
    symmetry.no_look_ahead,
    numerics.empty_rows,
    numerics.finite,
    numerics.gradients,
    numerics.loss,
    state.seed,
    state.state_dict,
    state.save_load,
    models.fused,
    models.memory,
    models.onnx,
)
"""Every check, in the order in which the suite runs them."""

NAMES: tuple[str, ...] = tuple(check.name for check in CHECKS)
"""The checks' names."""
