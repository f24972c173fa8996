"""The contract of runtimes, which open, run and verify exported files, and the look-up of a runtime by suffix.

This module needs no torch, so that a runtime works without it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from peirce.errors import InputError, ModelFileError, RegistryError
from peirce.files import near_names
from peirce.parts import Signature
from peirce.registry import Registry, class_named
from peirce_export.hooks import RUNTIMES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from peirce.model import Model, Report, Stepper

Progress = Callable[[str], None]
"""Called with a few words before each step of something slow."""


class OnDevice(ABC):
    """An output that stayed where it was computed; it may be an input of the session's next run.

    Attributes:
        dtype: its numpy dtype, float32 for bfloat16.
        shape: its sizes.
        device: where it lies, in the runtime's own words, such as `cpu` or `cuda`.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    device: str

    @abstractmethod
    def numpy(self) -> NDArray[Any]:
        """A copy of it in the memory of the CPU."""


@frozen(kw_only=True)
class Source:
    """The model that an exported file was exported from, as the file states it.

    Args:
        spec: as TOML.
        weights: their digest, as `peirce.model.weights_digest` computes it; None where the file does not say.
    """

    spec: str
    weights: str | None


class LoadedModel(ABC):
    """An exported file that its runtime has opened. `peirce.Session` checks inputs and fills in defaults before `run`.

    Attributes:
        signature: the file's inputs and outputs.
        providers: what computes, in the runtime's own names.
        generated: the input that generation appends tokens to; None for a file that does not generate.
        role: which graph of its model it is, in the exporter's own words; `model` for all of it.
    """

    signature: Signature
    providers: tuple[str, ...]
    generated: str | None = None
    role: str = "model"

    @abstractmethod
    def dtype(self, name: str) -> np.dtype[Any]:
        """The numpy dtype of an input or output."""

    @abstractmethod
    def run(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> list[NDArray[Any]]:
        """Compute outputs, in that order, from every input.

        Raises:
            InputError: the file does not run with these sizes.
        """

    def run_on_device(
        self, feeds: Mapping[str, NDArray[Any] | OnDevice], outputs: Sequence[str]
    ) -> list[OnDevice]:
        """Compute outputs, in that order, which stay where they are computed; by default a runtime does not do that.

        Raises:
            InputError: the file does not run with these sizes, or its runtime keeps nothing on a device.
        """
        raise InputError("the runtime of this file leaves no outputs on a device; use `run`")

    def stepper(self) -> Callable[[Mapping[str, NDArray[Any]]], Stepper]:
        """A function from prompts to a stepper of generation; by default a file does not generate.

        Raises:
            InputError: the file was not exported to generate. The function raises it where a prompt is empty.
        """
        raise InputError("the runtime of this file does not generate")

    @abstractmethod
    def close(self) -> None:
        """Release the model's memory."""


class Runtime(ABC):
    """Opens and verifies the files of one format, by their suffix; it is made without arguments.

    Neither its module nor `open` may need torch: a serving machine need not have it.
    """

    def check(self, path: Path) -> str | None:
        """Check a file against its digest, before it is opened.

        Returns:
            The digest; None for a file without one, which by default is every file.

        Raises:
            ModelFileError: the file is not what was exported.
        """
        return None

    def source(self, path: Path) -> Source | None:
        """The model that a file was exported from, as far as it says; by default it does not.

        Raises:
            ModelFileError: the file is damaged, or was not exported by Peirce.
        """
        return None

    @abstractmethod
    def open(self, path: Path, providers: Sequence[str] | None, threads: int | None) -> LoadedModel:
        """Open a file, which is there.

        Args:
            path: the file.
            providers: what should compute, in the runtime's own names, by preference; None leaves the choice to it.
            threads: threads within an operator; None leaves the choice to the runtime.

        Raises:
            ModelFileError: the file is damaged, or was not exported by Peirce.
            InputError: there is no such provider.
        """

    def open_with_options(
        self,
        path: Path,
        providers: Sequence[str] | None,
        threads: int | None,
        options: Mapping[str, Mapping[str, Any]],
    ) -> LoadedModel:
        """Open a file with options of its providers, by name; by default a runtime takes none. Raises as `open`."""
        if options:
            raise InputError(f"the runtime of {path} takes no provider_options; leave them out")
        return self.open(path, providers, threads)

    @abstractmethod
    def verify(
        self,
        path: Path,
        model: Model,
        *,
        seed: int = 0,
        providers: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Report:
        """Verify a file against its model.

        Args:
            path: the file.
            model: the model; it is not changed.
            seed: of the random inputs.
            providers: what should compute; None takes what needs no special hardware, where there is a choice.
            progress: called before each step.

        Raises:
            ExportError: the file differs from the model.
            ModelFileError: the file is missing, damaged, or was not exported by Peirce.
        """


def runtime_class(path: str | os.PathLike[str], registry: Registry | None = None) -> type[Runtime]:
    """The class of the runtime of a file, by its suffix; no part is imported, and torch only if the runtime needs it.

    Args:
        path: the file, which need not exist.
        registry: where runtimes are looked up; what is installed and active if None.

    Raises:
        RegistryError: there is no runtime for such files, its module cannot be imported, or it is not a `Runtime`.
    """
    suffix = Path(path).suffix.removeprefix(".").lower()
    try:
        return class_named(RUNTIMES, suffix, Runtime, registry)
    except RegistryError as error:
        raise RegistryError(
            f"no runtime opens .{suffix} files: {error}; `peirce export` writes files that one opens where its "
            "exporter comes with a runtime"
        ) from None


def find_runtime(path: Path) -> Runtime:
    """The runtime of a file, an instance.

    Raises:
        ModelFileError: the file does not exist, or no runtime is known for its suffix.
    """
    if not path.is_file():
        inside = path.is_dir()
        what = f"{path} is a folder, and no exported file" if inside else f"there is no file {path}"
        near = near_names(path / "model.onnx" if inside else path, "*.onnx")
        raise ModelFileError(f"{what}{near}; `peirce export` writes one")
    try:
        return runtime_class(path)()
    except RegistryError as error:
        raise ModelFileError(f"{path}: {error}") from error
