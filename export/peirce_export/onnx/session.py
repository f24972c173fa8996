"""Exported ONNX files in ONNX Runtime, without torch: outputs of arrays, and steps of generation.

Nothing here, nor anything that it imports, may import torch: a serving machine need not have it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from peirce.errors import InputError, ModelFileError, lacks_memory
from peirce_export.failures import Mismatch
from peirce_export.onnx.content import Content, Weights
from peirce_export.onnx.providers import CPU, ProviderOptions, both_runtimes, start
from peirce_export.onnx.structure import check
from peirce_export.runtimes import OnDevice
from peirce_export.stepper import GenerativeFile

BFLOAT16 = "tensor(bfloat16)"
DTYPES: dict[str, np.dtype[Any]] = {
    "tensor(int64)": np.dtype(np.int64),
    "tensor(int32)": np.dtype(np.int32),
    "tensor(bool)": np.dtype(np.bool_),
    "tensor(float)": np.dtype(np.float32),
    "tensor(float16)": np.dtype(np.float16),
    "tensor(double)": np.dtype(np.float64),
    BFLOAT16: np.dtype(np.float32),
}


class OnnxFile(GenerativeFile):
    """A file that ONNX Runtime has loaded.

    Args:
        file: the ONNX file, or what was read of it; its external data, if any, lies beside it.
        providers: names of ONNX Runtime's execution providers in order of preference; None takes CUDA where
            it works, then the CPU.
        threads: threads within an operator; None leaves the choice to ONNX Runtime.
        provider_options: options of providers, in ONNX Runtime's own words, by the provider's name. TensorRT's keep its
            engines beside the file, where they do not say otherwise.
        weights: the weights that the file does not hold; by default those that lie beside it.

    Raises:
        ModelFileError: the file is missing, damaged, or was not exported by Peirce.
        InputError: a provider that this installation does not have, or that does not start.
    """

    def __init__(
        self,
        file: Path | Content,
        providers: Sequence[str] | None = None,
        threads: int | None = None,
        provider_options: ProviderOptions | None = None,
        weights: Weights | None = None,
    ) -> None:
        content = file if isinstance(file, Content) else Content.read(file)
        self.path, self.metadata = content.path, content.metadata
        self.signature, self.role = self.metadata.signature, self.metadata.role
        try:
            check(content.proto, self.signature, self.metadata.precision, str(self.path))
        except Mismatch as error:
            raise ModelFileError(f"{error}; it was changed after export: export the model again") from error
        self._threads, self._options = threads, provider_options
        # ONNX Runtime computes with these arrays where they lie, so they stay as long as its session does.
        self._weights = content.weights() if weights is None else weights
        self._session: Any = start(content, self._weights, providers, provider_options, threads)
        self.providers = tuple(self._session.get_providers())
        missing = [name for name in providers or () if name not in self.providers]
        if missing:
            raise InputError(
                f"{', '.join(missing)} did not start; in effect: {', '.join(self.providers)}. "
                f"{both_runtimes() or 'Check its driver and libraries, or name other providers'}"
            )

    def dtype(self, name: str) -> np.dtype[Any]:
        """The numpy dtype of an input or output; bfloat16 outputs come as float32, which numpy has."""
        return self.metadata.array_dtype(name)

    def run(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> list[NDArray[Any]]:
        """Compute outputs, in that order."""
        if any(self.metadata.dtype(name) == "bfloat16" for name in outputs):
            values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
            found = self._call(lambda: self._session.run_with_ort_values(outputs, values))
            return [_to_numpy(value) for value in found]
        return self._call(lambda: self._session.run(outputs, feeds))

    def run_on_device(
        self, feeds: Mapping[str, NDArray[Any] | OnDevice], outputs: Sequence[str]
    ) -> list[OnDevice]:
        """Compute outputs, which stay where the first provider computes."""

        def call() -> list[OnDevice]:
            binding = self._session.io_binding()
            for name, value in feeds.items():
                if not isinstance(value, OnnxValue):
                    value = OnnxValue(ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value)))
                binding.bind_ortvalue_input(name, value.value)
            for name in outputs:
                binding.bind_output(name, "cpu" if self.providers[0] == CPU else "cuda")
            self._session.run_with_iobinding(binding)
            return [OnnxValue(value) for value in binding.get_outputs()]

        return self._call(call)

    def open_companion(self, path: Path) -> OnnxFile:
        """Open another file with the same providers."""
        return OnnxFile(path, self.providers, self._threads, self._options)

    def close(self) -> None:
        """Release the model's memory."""
        self._session, self._weights = None, {}
        super().close()

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            if lacks_memory(error):
                raise MemoryError(str(error)) from error
            message = " ".join(str(error).split())
            raise InputError(f"{self.path}: ONNX Runtime could not run these inputs: {message}") from error


class OnnxValue(OnDevice):
    """A value of ONNX Runtime, wherever it lies."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.dtype, self.shape = DTYPES[value.data_type()], tuple(value.shape())
        self.device = value.device_name()

    def numpy(self) -> NDArray[Any]:
        """A copy of it as an array."""
        if self.value.data_type() == BFLOAT16 and self.device != "cpu":
            raise InputError(f"numpy has no bfloat16, and this value lies on {self.device}; use `run`")
        return _to_numpy(self.value)


def _to_numpy(value: Any) -> NDArray[Any]:
    """An OrtValue as an array; bfloat16, which numpy lacks, is the upper half of a float32."""
    if value.data_type() != BFLOAT16:
        return value.numpy()
    shape = value.shape()
    size = int(np.prod(shape))
    halves = np.ctypeslib.as_array((ctypes.c_uint16 * size).from_address(value.data_ptr()))
    return (halves.astype(np.uint32) << 16).view(np.float32).reshape(shape)
