"""The faults that verification can find in an exported file, a class for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from peirce.errors import ExportError
from peirce.parts import Signature, dim_terms

if TYPE_CHECKING:
    from peirce_export.report import Verification


class Mismatch(ExportError):  # noqa: N818  what does not match is the better name
    """An exported file that differs from its model; commands exit with 1 on it.

    Attributes:
        report: what was measured before the fault was found; None when nothing was run.
    """

    report: Verification | None = None

    def with_message(self, message: str) -> Self:
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
        inputs: the .npz file of the inputs; None until they are saved.
    """

    inputs: Path | None = None


def check_dims(
    source: str, tensor: str, found: Sequence[str | int], wanted: Sequence[str | int], *, named: bool = True
) -> None:
    """Check the dims of a tensor in a file against those of a signature.

    Args:
        source, tensor: the file and the tensor, for errors.
        found, wanted: in the file and in the signature; a symbolic dim is a text.
        named: whether symbolic dims must have the signature's names.

    Raises:
        DimMismatch: another rank; or a dim that is fixed where it must be symbolic, or has another name or size.
    """
    if len(found) != len(wanted):
        both = [", ".join(map(str, dims)) for dims in (found, wanted)]
        raise DimMismatch(f"{source}: {tensor} has dims [{both[0]}], but the signature [{both[1]}]")
    for axis, (have, want) in enumerate(zip(found, wanted, strict=True)):
        fault = None
        if isinstance(want, int):
            fault = None if have == want else f"is {have!r}, but the signature says {want}"
        elif isinstance(have, int):
            fault = f"is fixed at {have}, but must stay symbolic as {want!r}: one size was specialised"
        elif named and dim_terms(have) != dim_terms(want):
            fault = f"is called {have!r}, but the signature calls it {want!r}"
        if fault is not None:
            raise DimMismatch(f"{source}: dim {axis} of {tensor} {fault}")


_ADVICE = ("For more", "For extended", "For C++", "If you suspect", "Caused by", "The error above occurred")
"""Beginnings of lines that torch writes for its own developers."""


def trace_error(error: BaseException, signature: Signature, tracer: str) -> ExportError:
    """The export error for an error that a tracer, such as `torch.onnx`, raised at any depth."""
    chain, link = list[str](), error
    while link is not None and len(chain) < 8:
        if isinstance(link, ExportError):  # Peirce itself raises one only for an output that is missing
            return link if isinstance(link, Mismatch) else NameMismatch(str(link))
        chain.append(str(link).strip())
        link = link.__cause__ or link.__context__  # type: ignore[assignment]
    cause = "\n".join(line for line in chain[-1].splitlines() if line and not line.startswith(_ADVICE))[:2000]
    if any(sign in text for text in chain for sign in ("Constraints violated", "inferred to be a constant")):
        return DimMismatch(
            f"the model fixes one of the dims {', '.join(signature.symbols)}, which its signature declares "
            f"symbolic: {cause}\nLook for a size that is made an int, or for a Python loop over an axis"
        )
    return ExportError(f"{tracer} could not export the model: {cause}")
