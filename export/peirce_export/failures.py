"""What verification can find wrong with an exported file; each kind of fault is a class of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from peirce.errors import ExportError

if TYPE_CHECKING:
    from peirce_export.report import Verification


class Mismatch(ExportError):  # noqa: N818  what does not match is the better name
    """An exported file that differs from its model; commands exit with 1 on it.

    Attributes:
        report: what was measured before the fault was found; None when nothing was run.
    """

    report: Verification | None = None

    def saying(self, message: str) -> Self:
        """The same fault with another message."""
        other = type(self)(message)
        other.__dict__.update(self.__dict__)
        return other


class NameMismatch(Mismatch):
    """An input or output of the file is missing, unexpected, or in another place than the signature says."""


class DimMismatch(Mismatch):
    """A dim of an input or output is fixed where it must be symbolic, or has another name, size or rank."""


class DtypeMismatch(Mismatch):
    """An input, output or node of the file has another dtype than the signature and the precision ask for."""


class ValueMismatch(Mismatch):
    """An output of the file differs from the model by more than the tolerance.

    Attributes:
        inputs: the file (.npz) that holds the inputs; None until they are saved.
    """

    inputs: Path | None = None
