"""Random inputs that a signature allows, as numpy arrays; without torch, since exported files run without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from peirce.errors import InputError, check_known
from peirce.parts import Signature, TensorSpec

TRACED = (2, 5, 3, 7, 11, 13, 17, 19, 23)
"""Sizes to trace with: never 0 or 1, which torch.export specialises, and no two alike, which it joins."""
SPECIAL = 8
"""Vocabularies begin with their special tokens: half of the random ids lie below this, so that what a model does
with such a token, as pooling at it, is run at all. All ids of an input without an upper bound do."""

Padding = Literal["all", "padded", "empty"]
"""Which tokens are real: `all`; or not, in rows that are `padded` right and left; or one row is `empty`."""


def example_sizes(signature: Signature, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """A size for each symbolic dim, those that are not given at least 2, all different, and unlike the fixed dims.

    Raises:
        InputError: a dim is unknown, or its size is below 1 or above its largest.
    """
    largest, sizes = signature.largest, dict(given or {})
    for symbol, size in sizes.items():
        check_known("symbolic dim", symbol, signature.symbols)
        most = largest.get(symbol, "any number")
        if type(size) is not int or size < 1 or (isinstance(most, int) and size > most):
            raise InputError(f"the size of {symbol} is {size!r}; give 1 to {most}")
    specs = (*signature.inputs, *signature.outputs)
    fixed = {dim for spec in specs for dim in spec.dims if isinstance(dim, int)}
    for symbol in [symbol for symbol in signature.symbols if symbol not in sizes]:
        free = [size for size in TRACED if size not in sizes.values() and size <= largest.get(symbol, size)]
        sizes[symbol] = next((size for size in free if size not in fixed), free[0] if free else 2)
    return {symbol: sizes[symbol] for symbol in signature.symbols}


def example_arrays(
    signature: Signature,
    sizes: Mapping[str, int],
    *,
    seed: int = 0,
    padding: Padding = "all",
    real: DTypeLike = np.float32,
) -> dict[str, NDArray[Any]]:
    """Random inputs by name, at a size for every symbolic dim; ids keep to the upper bounds of the signature.

    Args:
        signature, sizes: which inputs there are, and how large.
        seed: what the values depend on, beside the sizes.
        padding: which tokens the masks call real.
        real: the dtype of `float` inputs.
    """
    random = np.random.default_rng([seed, *sizes.values(), len(padding)])
    return {spec.name: _random(spec, sizes, padding, random, real) for spec in signature.inputs}


def _random(
    spec: TensorSpec, sizes: Mapping[str, int], padding: Padding, random: np.random.Generator, real: DTypeLike
) -> NDArray[Any]:
    shape = tuple(dim if isinstance(dim, int) else sizes[dim] for dim in spec.dims)
    if spec.masks is not None:
        return _mask(shape, spec.dims.index(spec.masks), padding)
    if spec.dtype == "bool":
        return random.random(shape) < 0.5
    if spec.dtype == "int64":
        high = spec.high or SPECIAL
        few = random.integers(0, min(high, SPECIAL), shape, dtype=np.int64)
        return np.where(random.random(shape) < 0.5, few, random.integers(0, high, shape, dtype=np.int64))
    return random.standard_normal(shape).astype(real)


def _mask(shape: tuple[int, ...], axis: int, padding: Padding) -> NDArray[Any]:
    mask = np.ones(shape, np.bool_)
    tokens = np.moveaxis(mask, axis, -1)
    length = shape[axis]
    if padding == "padded":
        tokens[0, ..., (length + 1) // 2 :] = False
        tokens[-1, ..., : length // 3] = False
    if padding == "empty":
        mask[0] = False
    return mask
