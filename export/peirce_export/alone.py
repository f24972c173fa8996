"""An exported file held to what it says of itself: no model is needed, nor torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peirce.compose import Session
from peirce.model import Progress, Report
from peirce.parts import TensorSpec, terms

from peirce_export.cases import Case, cases, inputs
from peirce_export.failures import DimMismatch, DtypeMismatch


def check_alone(
    path: Path, *, seed: int = 0, providers: Sequence[str] | None = None, progress: Progress | None = None
) -> Report:
    """Open a file as a session does, run it at the sizes of a verification, and hold its outputs to its signature.

    Args:
        path: the file.
        seed: of the random inputs.
        providers: what computes, in the runtime's own names.
        progress: called with a few words before each run.

    Raises:
        ModelFileError: the file is missing, damaged, foreign, or not one that a session serves.
        InputError: it does not run at one of the sizes.
        DtypeMismatch, DimMismatch: an output is not what the signature says.
    """
    say = progress or (lambda words: None)
    undefined: dict[str, None] = {}
    with Session(path, providers=providers) as session:
        signature = session.signature
        plan = cases(signature, signature.largest)
        reals = [session.dtype(spec.name) for spec in signature.inputs if spec.dtype == "float"]
        for number, case in enumerate(plan, 1):
            say(f"case {number} of {len(plan)}: {case}")
            found = session.run(inputs(signature, case, seed, reals[0] if reals else np.dtype(np.float32)))
            for spec in signature.outputs:
                array = found[spec.name]
                _check(path, spec, array, session.dtype(spec.name), case)
                if array.dtype.kind == "f" and np.isnan(array).any():
                    undefined[spec.name] = None
    notes = [f"held to its own signature at {len(plan)} sizes; its values were compared with no model"]
    notes += [f"{name} holds what is no number" for name in undefined]
    return Report(file=path, passed=True, notes=tuple(notes))


def _check(path: Path, spec: TensorSpec, array: NDArray[Any], dtype: np.dtype[Any], case: Case) -> None:
    if array.dtype != dtype:
        raise DtypeMismatch(f"{path}: output {spec.name!r} is {array.dtype}, and must be {dtype}")
    wanted = [dim if isinstance(dim, int) else _size(dim, case.sizes) for dim in spec.dims]
    if len(wanted) != array.ndim or any(
        want is not None and have != want for have, want in zip(array.shape, wanted, strict=True)
    ):
        raise DimMismatch(
            f"{path}: output {spec.name!r} is {list(array.shape)} at {case}, and the signature says "
            f"[{', '.join(map(str, spec.dims))}]"
        )


def _size(dim: str, sizes: Mapping[str, int]) -> int | None:
    """The size of a symbolic dim, None where it does not follow from the inputs."""
    added = [int(term) if term.isdigit() else sizes.get(term) for term in terms(dim)]
    return None if None in added else sum(filter(None, added))
