"""The runtime of `.onnx` files. Verification, and torch with it, is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from peirce.model import Progress, Runtime

from peirce_export.onnx.session import OnnxFile

if TYPE_CHECKING:
    from peirce.model import Model

    from peirce_export.report import Verification


class OnnxRuntime(Runtime):
    """ONNX Runtime."""

    def open(self, path: Path, providers: Sequence[str] | None, threads: int | None) -> OnnxFile:
        """Load a file."""
        return OnnxFile(path, providers, threads)

    def verify(
        self,
        path: Path,
        model: Model,
        *,
        seed: int = 0,
        providers: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Verification:
        """Verify a file, by default on the CPU; see `peirce_export.verify`."""
        from peirce_export.onnx.structure import OnnxGraph
        from peirce_export.verify import verify

        return verify(OnnxGraph(path), model, seed=seed, providers=providers, progress=progress)
