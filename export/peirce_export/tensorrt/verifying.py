"""An engine as verification sees it: it runs on a GPU, and its structure is its header's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path

from peirce.files import checks_digests
from peirce.parts import Signature
from peirce_export.failures import NameMismatch
from peirce_export.tensorrt.engine import EngineFile
from peirce_export.tensorrt.header import Header
from peirce_export.verification import TF32, THROUGHOUT, TOLERANCES, Verifiable


def computed_in(precision: str, tf32: bool) -> str:
    """What an engine of a precision computes in, as `TOLERANCES` names it."""
    return {"bfloat16": THROUGHOUT, "float32": TF32 if tf32 else precision}.get(precision, precision)


class EngineGraph(Verifiable):
    """An engine, to verify.

    Raises:
        ModelFileError: the engine or its header is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.header = path, Header.read(path)
        self.metadata = self.header.metadata
        if checks_digests():
            self.header.check(path)

    def check(self, signature: Signature) -> None:
        """Names, dtypes and dims, as the header has them."""
        if self.metadata.signature != signature:
            raise NameMismatch(
                f"{self.path} was built for other inputs and outputs than the model's; export the model again"
            )

    def shape(self, output: str) -> tuple[str | int, ...]:
        """The dims of an output."""
        return self.metadata.signature.output(output).dims

    def open_file(self, providers: Sequence[str] | None) -> AbstractContextManager[EngineFile]:
        """The engine on the GPU."""
        return closing(EngineFile(self.path))

    def tolerance(self) -> tuple[float, str]:
        """The tolerance of the precision, or of TF32 where products may compute in it."""
        return TOLERANCES[computed_in(self.metadata.precision, self.header.flags.get("tf32", False))]

    def largest(self, signature: Signature) -> Mapping[str, int]:
        """No case is larger than the profiles."""
        profiles = self.header.profiles
        return {**signature.largest, **{dim: max(each[dim].most for each in profiles) for dim in profiles[0]}}
