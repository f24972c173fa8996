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
from peirce_export.verification import Verifiable

TF32 = (5e-3, "TF32 rounds the factors of products at 5e-4.")
BFLOAT16 = (1e-1, "bfloat16 rounds at 4e-3 after every operator, which an engine computes in it.")


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
        if self.metadata.precision == "bfloat16":
            return BFLOAT16
        tf32 = self.header.flags.get("tf32", False) and self.metadata.precision == "float32"
        return TF32 if tf32 else super().tolerance()

    def largest(self, signature: Signature) -> Mapping[str, int]:
        """No case is larger than the profiles."""
        profiles = self.header.profiles
        return {**signature.largest, **{dim: max(each[dim].most for each in profiles) for dim in profiles[0]}}
