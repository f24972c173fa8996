"""The inputs that an exported file is verified with: sizes that differ from the traced ones, and masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from peirce.parts import Signature, TensorSpec

if TYPE_CHECKING:
    from peirce.compose import Session

TRACED = (2, 5, 3, 7, 11, 13, 17, 19, 23)
"""Sizes to trace with: never 0 or 1, which torch.export specialises, and no two alike, which it joins."""
SPECIAL = 8
"""Vocabularies begin with their special tokens: half of the random ids lie below this, so that what a model does
with such a token, as pooling at it, is run at all. All ids of an input without an upper bound do."""

Mask = Literal["all", "padded", "empty"]


@frozen(kw_only=True)
class Case:
    """One run: a size for each symbolic dim, and which tokens are padding.

    Args:
        name: in a word or two.
        sizes: by symbolic dim.
        mask: `all` tokens are real; `padded` has rows padded right and left; `empty` has a row without any.
    """

    name: str
    sizes: Mapping[str, int]
    mask: Mask = "all"

    def __str__(self) -> str:
        """The name with the sizes."""
        return f"{self.name} ({', '.join(f'{symbol} {size}' for symbol, size in self.sizes.items())})"


def traced(signature: Signature, limits: Mapping[str, int]) -> dict[str, int]:
    """A size for each symbolic dim to trace with: at least 2, all different, and unlike the fixed dims."""
    fixed = {
        dim for spec in (*signature.inputs, *signature.outputs) for dim in spec.dims if isinstance(dim, int)
    }
    sizes: dict[str, int] = {}
    for symbol in signature.symbols:
        free = [size for size in TRACED if size not in sizes.values() and size <= limits.get(symbol, size)]
        sizes[symbol] = next((size for size in free if size not in fixed), free[0] if free else 2)
    return sizes


def cases(signature: Signature, limits: Mapping[str, int]) -> tuple[Case, ...]:
    """The runs of a verification, no symbolic dim larger than its limit."""
    plan: list[tuple[str, int, int, int, Mask]] = [
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
    random = np.random.default_rng([seed, *case.sizes.values(), len(case.mask)])
    return {spec.name: _random(spec, case, random, real) for spec in signature.inputs}


def real_of(session: Session) -> np.dtype[Any]:
    """The dtype of a session's floating inputs, as far as it has any."""
    found = (session.dtype(spec.name) for spec in session.signature.inputs if spec.dtype == "float")
    return next(found, np.dtype(np.float32))


def _random(spec: TensorSpec, case: Case, random: np.random.Generator, real: np.dtype[Any]) -> NDArray[Any]:
    shape = tuple(dim if isinstance(dim, int) else case.sizes[dim] for dim in spec.dims)
    if spec.masks is not None:
        return _mask(shape, spec.dims.index(spec.masks), case)
    if spec.dtype == "bool":
        return random.random(shape) < 0.5
    if spec.dtype == "int64":
        high = spec.high or SPECIAL
        few = random.integers(0, min(high, SPECIAL), shape, dtype=np.int64)
        return np.where(random.random(shape) < 0.5, few, random.integers(0, high, shape, dtype=np.int64))
    return random.standard_normal(shape).astype(real)


def _mask(shape: tuple[int, ...], axis: int, case: Case) -> NDArray[Any]:
    mask = np.ones(shape, np.bool_)
    tokens = np.moveaxis(mask, axis, -1)
    length = shape[axis]
    if case.mask == "padded":
        tokens[0, ..., (length + 1) // 2 :] = False
        tokens[-1, ..., : length // 3] = False
    if case.mask == "empty":
        mask[0] = False
    return mask
