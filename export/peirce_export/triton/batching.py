"""Whether requests for a model can be put into one batch: by its signature, and by what it computes."""

from __future__ import annotations

import numpy as np

from peirce.parts import Signature, dim_terms
from peirce_export import cases
from peirce_export.session import Session

TOLERANCE = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 2e-2}
"""How much the rows of a batch may differ from the same rows alone: as much as an export from its model."""
ROWS = 3


def has_rows(signature: Signature) -> bool:
    """Whether every input and output has the same symbolic dim first, and nowhere else."""
    first = signature.inputs[0].dims[0] if signature.inputs[0].dims else None
    if not isinstance(first, str):
        return False
    return all(
        spec.dims and spec.dims[0] == first and not any(first in dim_terms(str(dim)) for dim in spec.dims[1:])
        for spec in (*signature.inputs, *signature.outputs)
    )


def rows_are_independent(session: Session, precision: str, seed: int) -> bool:
    """Whether each row of a batch gives the same outputs as it does alone."""
    signature = session.signature
    first = str(signature.inputs[0].dims[0])
    sizes = {symbol: min(7, signature.largest.get(symbol, 7)) for symbol in signature.symbols} | {first: ROWS}
    case = cases.Case(name="rows", sizes=sizes, mask="padded")
    feeds = cases.inputs(signature, case, seed, cases.real_of(session))
    # Masks of cached state may leave no token; ONNX Runtime answers all the same.
    together = session.run(feeds)
    for row in range(ROWS):
        alone = session.run({name: array[row : row + 1] for name, array in feeds.items()})
        for name, value in alone.items():
            whole = together[name][row : row + 1]
            scale = float(np.abs(whole[np.isfinite(whole)]).max(initial=1e-6))
            tolerance = TOLERANCE[precision] * scale if value.dtype.kind == "f" else 0
            if not np.allclose(value, whole, rtol=0.0, atol=tolerance, equal_nan=True):
                return False
    return True
