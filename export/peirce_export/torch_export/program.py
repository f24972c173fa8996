"""`.pt2` files that torch has loaded: outputs of arrays, and steps of generation.

Loading one can run code of whoever made it: `peirce_export.torch_export.runtime` says when it is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from peirce.errors import InputError, ModelFileError, lacks_memory
from peirce_export.casting import DTYPES
from peirce_export.runtimes import OnDevice
from peirce_export.stepper import GenerativeFile
from peirce_export.torch_export.archive import TORCH, Archive


class ProgramFile(GenerativeFile):
    """A file that torch has loaded, which may have run code of it.

    Args:
        archive: the file.
        threads: threads within an operator; None leaves the choice to torch.

    Raises:
        ModelFileError: torch cannot load it.
    """

    providers = (TORCH,)

    def __init__(self, archive: Archive, threads: int | None = None) -> None:
        self.path, self.metadata, self._threads = archive.path, archive.metadata, threads
        self.signature, self.role = self.metadata.signature, self.metadata.role
        self._names = [spec.name for spec in self.signature.outputs]
        self._real = DTYPES[self.metadata.precision]
        try:
            if archive.compiled:
                self._call: Any = torch._inductor.aoti_load_package(str(self.path))
            else:
                with self.path.open("rb") as file:
                    self._call = torch.export.load(file).module()
        except Exception as error:  # torch raises many kinds
            message = " ".join(str(error).split())[:300]
            raise ModelFileError(
                f"{self.path} cannot be loaded by torch: {message}; export it again"
            ) from error

    def dtype(self, name: str) -> np.dtype[Any]:
        """The dtype of an input or output as arrays have it."""
        return self.metadata.array_dtype(name)

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str]) -> list[NDArray[Any]]:
        """Compute outputs as arrays."""
        return [value.numpy() for value in self.run_on_device(feeds, outputs)]

    def run_on_device(
        self, feeds: Mapping[str, NDArray[Any] | OnDevice], outputs: Sequence[str]
    ) -> list[OnDevice]:
        """Compute outputs that stay tensors."""
        tensors = [self._tensor(feeds[spec.name]) for spec in self.signature.inputs]
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(self._threads or before)
            with torch.no_grad():
                found = dict(zip(self._names, self._call(*tensors), strict=True))
        except Exception as error:  # torch raises many kinds
            if lacks_memory(error):
                raise MemoryError(str(error)) from error
            message = " ".join(str(error).split())[:500]
            raise InputError(f"{self.path}: torch could not run these inputs: {message}") from error
        finally:
            torch.set_num_threads(before)
        return [TorchValue(found[name]) for name in outputs]

    def _tensor(self, value: Any) -> Tensor:
        tensor = value.value if isinstance(value, TorchValue) else torch.tensor(np.asarray(value))
        return tensor.to(self._real) if tensor.is_floating_point() else tensor

    def open_companion(self, path: Path) -> ProgramFile:
        """Open another file with the same threads."""
        return ProgramFile(Archive.read(path), self._threads)

    def close(self) -> None:
        """Release the model's memory."""
        self._call = None
        super().close()


class TorchValue(OnDevice):
    """A tensor that a run gave."""

    def __init__(self, value: Tensor) -> None:
        self.value, self.shape, self.device = value, tuple(value.shape), str(value.device)
        self.dtype = self._wide()[:0].numpy().dtype if value.dim() else self._wide().numpy().dtype

    def numpy(self) -> NDArray[Any]:
        """A copy of it as an array; bfloat16, which numpy lacks, as float32."""
        return self._wide().clone().numpy()

    def _wide(self) -> Tensor:
        return (self.value.float() if self.value.dtype == torch.bfloat16 else self.value).cpu()
