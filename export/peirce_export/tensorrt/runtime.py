"""The runtime of `.engine` files. Verification, and torch with it, is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from peirce.errors import InputError
from peirce.model import Progress, Report, Runtime, Source

from peirce_export.tensorrt.engine import PROVIDER, EngineFile
from peirce_export.tensorrt.header import Header

if TYPE_CHECKING:
    from peirce.model import Model


class TensorRTRuntime(Runtime):
    """TensorRT."""

    def check(self, path: Path) -> str | None:
        """Hold an engine against its header; its sha256."""
        return Header.read(path).hold(path)

    def source(self, path: Path) -> Source:
        """The model that an engine was built from."""
        return Header.read(path).metadata.source

    def open(self, path: Path, providers: Sequence[str] | None, threads: int | None) -> EngineFile:
        """Load an engine on the GPU."""
        for name in providers or ():
            if name != PROVIDER:
                raise InputError(
                    f"an engine is computed by {PROVIDER}, not by {name!r}; leave `providers` out"
                )
        return EngineFile(path)

    def verify(
        self,
        path: Path,
        model: Model,
        *,
        seed: int = 0,
        providers: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Report:
        """Run an engine against its model, on a GPU."""
        from peirce_export.tensorrt.verifying import EngineGraph
        from peirce_export.verify import verify

        return verify(EngineGraph(path), model, seed=seed, providers=providers, progress=progress)
