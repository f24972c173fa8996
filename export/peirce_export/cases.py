"""The inputs that an exported file is verified with: sizes that differ from the traced ones, and masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from peirce.model import Padding, example_arrays
from peirce.parts import Signature

if TYPE_CHECKING:
    from peirce_export.session import Session


@frozen(kw_only=True)
class Case:
    """One run: a size for each symbolic dim, and which tokens are padding.

    Args:
        name: in a word or two.
        sizes: by symbolic dim.
        mask: which tokens are real.
    """

    name: str
    sizes: Mapping[str, int]
    mask: Padding = "all"

    def __str__(self) -> str:
        """The name with the sizes."""
        return f"{self.name} ({', '.join(f'{symbol} {size}' for symbol, size in self.sizes.items())})"


def cases(signature: Signature, limits: Mapping[str, int]) -> tuple[Case, ...]:
    """The runs of a verification, no symbolic dim larger than its limit."""
    plan: list[tuple[str, int, int, int, Padding]] = [
        ("one token", 1, 1, 1, "all"),
        ("odd length", 3, 7, 4, "all"),
        ("longer", 1, 33, 2, "all"),
    ]
    if any(spec.masks is not None for spec in signature.inputs):
        plan += [("padded", 3, 12, 4, "padded"), ("empty row", 3, 9, 1, "empty")]
    found = []
    for name, batch, length, other, kind in plan:
        sizes = {symbol: other + i for i, symbol in enumerate(signature.symbols)}
        sizes |= {symbol: size for symbol, size in (("batch", batch), ("length", length)) if symbol in sizes}
        sizes = {symbol: min(size, limits.get(symbol, size)) for symbol, size in sizes.items()}
        found.append(Case(name=name, sizes=sizes, mask=kind))
    return tuple(found)


def inputs(signature: Signature, case: Case, seed: int, real: np.dtype[Any]) -> dict[str, NDArray[Any]]:
    """Random inputs of a case, `float` ones of a dtype; ids respect the upper bounds of the signature."""
    return example_arrays(signature, case.sizes, seed=seed, padding=case.mask, real=real)


def real_of(session: Session) -> np.dtype[Any]:
    """The dtype of a session's floating inputs, as far as it has any."""
    found = (session.dtype(spec.name) for spec in session.signature.inputs if spec.dtype == "float")
    return next(found, np.dtype(np.float32))
