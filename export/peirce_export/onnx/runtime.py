"""The runtime of `.onnx` files. Verification, and torch with it, is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve

from peirce.errors import ModelFileError
from peirce.files import checks_digests
from peirce_export.onnx.content import Content, RewrittenError
from peirce_export.onnx.session import OnnxFile
from peirce_export.runtimes import Runtime, Source

if TYPE_CHECKING:
    from peirce.model import Model
    from peirce_export.report import Verification


class OnnxRuntime(Runtime):
    """ONNX Runtime. A file is read once, whatever is then done with it."""

    def __init__(self) -> None:
        self._read = cache(Content.read)

    def check(self, path: Path) -> str | None:
        """Check a file against its digest; see `peirce_export.onnx.content`."""
        return self._read(path).check()

    def source(self, path: Path) -> Source:
        """The model that a file was exported from."""
        return self._read(path).metadata.source

    def open(self, path: Path, providers: Sequence[str] | None, threads: int | None) -> OnnxFile:
        """Load a file."""
        return OnnxFile(self._read(path), providers, threads)

    def open_with_options(
        self,
        path: Path,
        providers: Sequence[str] | None,
        threads: int | None,
        options: Mapping[str, Mapping[str, Any]],
    ) -> OnnxFile:
        """Load a file with options of its providers."""
        return OnnxFile(self._read(path), providers, threads, options)

    def verify(self, path: Path, model: Model, **how: Any) -> Verification:
        """Verify a file, by default on the CPU; see `peirce_export.verification`."""
        from peirce_export.onnx.verifying import OnnxGraph
        from peirce_export.verification import verify

        content = self._read(path)
        report = verify(OnnxGraph(content), model, **how)
        # The digest comes after the values, which say more about a file that was changed.
        try:
            if not checks_digests() or content.check():
                return report
            note = "the file carries no digest, as those of Peirce 0.1"
        except RewrittenError as error:
            note = str(error)
        except ModelFileError as error:
            message = "It computes what the model computes" + "".join(f"; {each}" for each in report.notes)
            raise ModelFileError(f"{error}. {message}") from error
        return evolve(report, notes=(*report.notes, note))
