"""The inputs that an exported file is verified with: sizes that differ from the traced ones, and masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from peirce.model import Padding, example_arrays
from peirce.parts import Signature, TensorSpec

if TYPE_CHECKING:
    from peirce_export.session import Session

CONSTANT = "one word a row"
"""The name of the case of constant rows."""
SPECIAL = 8
"""Rows with one id each: vocabularies begin with their special tokens."""


@frozen(kw_only=True)
class Case:
    """One run: a size for each symbolic dim, and which tokens are padding.

    Args:
        name: in a word or two.
        sizes: by symbolic dim.
        mask: which tokens are real.
        constant: whether the tokens of each row but the last are one word: row i has the id i alone, and zeros for
            what is no id. So special tokens stand alone, and what guards a logarithm or a quotient is reached; the
            last row gives the outputs their usual size.
    """

    name: str
    sizes: Mapping[str, int]
    mask: Padding = "all"
    constant: bool = False

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
        plan += [("all padding", 1, 6, 1, "empty")]
    plan += [(CONSTANT, SPECIAL + 1, 4, 2, "all")]
    found = []
    for name, batch, length, other, kind in plan:
        sizes = {symbol: other + i for i, symbol in enumerate(signature.symbols)}
        sizes |= {symbol: size for symbol, size in (("batch", batch), ("length", length)) if symbol in sizes}
        sizes = {symbol: min(size, limits.get(symbol, size)) for symbol, size in sizes.items()}
        found.append(Case(name=name, sizes=sizes, mask=kind, constant=name == CONSTANT))
    return tuple(found)


def inputs(signature: Signature, case: Case, seed: int, real: np.dtype[Any]) -> dict[str, NDArray[Any]]:
    """Random inputs of a case, `float` ones of a dtype; ids respect the upper bounds of the signature."""
    arrays = example_arrays(signature, case.sizes, seed=seed, padding=case.mask, real=real)
    for spec in signature.inputs if case.constant else ():
        if spec.masks is None and spec.dims[:1] == ("batch",):
            rows = arrays[spec.name][:-1]
            ids = np.arange(len(rows)) % (spec.high or SPECIAL) * (spec.dtype == "int64")
            rows[:] = ids.reshape(-1, *[1] * (rows.ndim - 1))
    return arrays


def seen(
    signature: Signature, output: TensorSpec, feeds: Mapping[str, NDArray[Any]]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which places of an output see any token, and which belong to none that is padding.

    The first lack places of padding, and those of rows or sets without any real token, whose values hang on how a mask
    rounds; the second lack places of padding alone.

    Returns:
        Two arrays of the output's rank, with an axis of 1 where all places are alike.
    """
    seeing = real = np.ones([1] * len(output.dims), np.bool_)
    for spec in signature.inputs:
        if spec.masks is None:
            continue
        own = [axis for axis, dim in enumerate(output.dims) if dim == spec.masks]
        for axis in own or [-1]:
            axes = [axis if dim == spec.masks else _index(output.dims, dim) for dim in spec.dims]
            absent = tuple(i for i, place in enumerate(axes) if place < 0)
            mask = np.asarray(feeds[spec.name].any(axis=absent))
            places = [place for place in axes if place >= 0]
            mask = mask.transpose(np.argsort(places))
            shape = np.ones(len(output.dims), int)
            shape[sorted(places)] = mask.shape
            seeing = seeing & mask.reshape(shape)
            real = real & mask.reshape(shape) if own else real
    return seeing, real


def _index(dims: Sequence[str | int], dim: str | int) -> int:
    return dims.index(dim) if dim in dims else -1


def real_of(session: Session) -> np.dtype[Any]:
    """The dtype of a session's floating inputs, as far as it has any."""
    found = (session.dtype(spec.name) for spec in session.signature.inputs if spec.dtype == "float")
    return next(found, np.dtype(np.float32))
