"""The runtime of `.engine` files. Verification, and torch with it, is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peirce.errors import InputError, check_known
from peirce.model import Report
from peirce_export.runtimes import Runtime, Source
from peirce_export.tensorrt.engine import PROVIDER, EngineFile
from peirce_export.tensorrt.header import Header

if TYPE_CHECKING:
    from peirce.model import Model

CUDA_GRAPHS = "cuda_graphs"


class TensorRTRuntime(Runtime):
    """TensorRT."""

    def check(self, path: Path) -> str | None:
        """Check an engine against its header; return its sha256."""
        return Header.read(path).check(path)

    def source(self, path: Path) -> Source:
        """The model that an engine was built from."""
        return Header.read(path).metadata.source

    def open(self, path: Path, providers: Sequence[str] | None, threads: int | None) -> EngineFile:
        """Load an engine on the GPU."""
        return self.open_with_options(path, providers, threads, {})

    def open_with_options(
        self,
        path: Path,
        providers: Sequence[str] | None,
        threads: int | None,
        options: Mapping[str, Mapping[str, Any]],
    ) -> EngineFile:
        """Load an engine on the GPU; `{"TensorRT": {"cuda_graphs": True}}` is the one option."""
        for name in providers or ():
            if name != PROVIDER:
                raise InputError(
                    f"an engine is computed by {PROVIDER}, not by {name!r}; leave `providers` out"
                )
        for name in options:
            check_known("provider to give options", name, [PROVIDER])
        given = dict(options.get(PROVIDER, {}))
        for option, value in given.items():
            check_known(f"option of {PROVIDER}", option, [CUDA_GRAPHS])
            if not isinstance(value, bool):
                raise InputError(f"option {option} of {PROVIDER} is {value!r}; it is True or False")
        return EngineFile(path, **given)

    def verify(self, path: Path, model: Model, **how: Any) -> Report:
        """Run an engine against its model, on a GPU."""
        from peirce_export.tensorrt.verifying import EngineGraph
        from peirce_export.verification import verify

        return verify(EngineGraph(path), model, **how)
