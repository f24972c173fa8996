"""Whether an exported file is of the saved model that it lies beside, or of one that stood there before."""

from __future__ import annotations

from pathlib import Path

from peirce.errors import ModelFileError, SpecError
from peirce.files import read_text
from peirce.model import CONTENT, PROVENANCE, SPEC, Runtime, read_provenance
from peirce.spec import Spec


class StaleWarning(UserWarning):
    """An exported file lies beside a saved model that it was not exported from."""


def stale(path: Path, runtime: Runtime) -> str | None:
    """How an exported file differs from the saved model in its folder; None where it does not, or nothing tells.

    Args:
        path: the file.
        runtime: its runtime.

    Returns:
        A sentence, with the next step.
    """
    folder = path.parent
    if not (folder / PROVENANCE).is_file():
        return None
    try:
        recorded, source = read_provenance(folder).get(CONTENT), runtime.source(path)
        if source is None or None in (recorded, source.weights):
            return None
        differing = [] if source.weights == recorded else ["weights"]
        text = read_text(folder / SPEC)
        if Spec.from_toml(text, source=str(folder / SPEC)) != Spec.from_toml(source.spec, source=str(path)):
            differing.append("spec")
    except (ModelFileError, SpecError, OSError, ValueError):
        return None  # what is wrong with either is told by whoever opens it
    if not differing:
        return None
    return (
        f"{path} was exported from another model than {folder} holds, with other {' and '.join(differing)}: that one "
        f"was saved later, or elsewhere. Export it again with `peirce export {folder} -o {path}`, or remove it"
    )
