"""The runtime of `.pt2` files. They may run code, so they are opened only where the user names what runs them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peirce.errors import InputError, check_known
from peirce.files import checks_digests
from peirce.model import Report
from peirce_export.runtimes import LoadedModel, Runtime, Source
from peirce_export.torch_export.archive import TORCH, Archive

if TYPE_CHECKING:
    from peirce.model import Model


class TorchRuntime(Runtime):
    """torch, for programs of torch.export and packages of AOTInductor."""

    def check(self, path: Path) -> str:
        """Check a file against its digest; see `peirce_export.torch_export.archive`."""
        return Archive.read(path).check()

    def source(self, path: Path) -> Source:
        """The model that a file was exported from."""
        return Archive.read(path).metadata.source

    def open(self, path: Path, providers: Sequence[str] | None, threads: int | None) -> LoadedModel:
        """Load a file, with whatever code is in it, if `providers` names torch."""
        archive = Archive.read(path)
        _require_trust(path, providers)
        from peirce_export.torch_export.program import ProgramFile

        return ProgramFile(archive, threads)

    def verify(
        self, path: Path, model: Model, *, providers: Sequence[str] | None = None, **how: Any
    ) -> Report:
        """Verify a file by running it, with whatever code is in it, if `providers` names torch."""
        archive = Archive.read(path)
        _require_trust(path, providers)
        if checks_digests():
            archive.check()
        from peirce_export.torch_export.verifying import ProgramGraph
        from peirce_export.verification import verify

        return verify(ProgramGraph(archive), model, providers=providers, **how)


def _require_trust(path: Path, providers: Sequence[str] | None) -> None:
    """Refuse to run a file unless the user names torch: it evaluates expressions of the file, and loads libraries."""
    for name in providers or ():
        check_known("provider of a .pt2 file", name, [TORCH])
    if not providers:
        raise InputError(
            f"{path} is a program for torch, and may run any code of whoever made it. If you trust them as you trust "
            f'code, name what runs it: providers=["{TORCH}"], or --provider {TORCH}'
        )
