"""The check of an exported file against its own signature, which needs neither the model nor torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from peirce.model import Report
from peirce.parts import dim_terms
from peirce_export.cases import cases, inputs, real_of
from peirce_export.failures import DimMismatch
from peirce_export.runtimes import Progress
from peirce_export.session import Session


def self_check(
    path: Path, *, seed: int = 0, providers: Sequence[str] | None = None, progress: Progress | None = None
) -> Report:
    """Open a file as a session does, run it at the sizes of a verification, and compare the outputs with its signature.

    Raises:
        ModelFileError: the file is missing, damaged, not of Peirce, or not one that a session opens.
        InputError: it does not run at one of the sizes.
        DimMismatch: an output has another shape than the signature says.
    """
    undefined: dict[str, None] = {}
    with Session(path, providers=providers) as session:
        signature = session.signature
        plan = cases(signature, signature.largest)
        for number, case in enumerate(plan, 1):
            if progress is not None:
                progress(f"case {number} of {len(plan)}: {case}")
            found = session.run(inputs(signature, case, seed, real_of(session)))
            for spec in signature.outputs:
                array = found[spec.name]
                for dim, size in zip(spec.dims, array.shape, strict=True):
                    sizes = [
                        int(term) if term.isdigit() else case.sizes.get(term) for term in dim_terms(str(dim))
                    ]
                    if None not in sizes and sum(filter(None, sizes)) != size:
                        raise DimMismatch(
                            f"{path}: output {spec.name!r} is {list(array.shape)} at {case}, and the signature says "
                            f"[{', '.join(map(str, spec.dims))}]"
                        )
                if array.dtype.kind == "f" and np.isnan(array).any():
                    undefined[spec.name] = None
    notes = [
        f"checked against its own signature at {len(plan)} sizes; its values were not compared with a model"
    ]
    notes += [f"{name} contains NaN" for name in undefined]
    return Report(file=path, passed=True, notes=tuple(notes))
