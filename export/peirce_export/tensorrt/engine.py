"""An engine on an NVIDIA GPU: numpy in and numpy out, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peirce.errors import ExportError, InputError, ModelFileError
from peirce.model import OpenFile

from peirce_export.tensorrt.backends import backend, has_gpu
from peirce_export.tensorrt.header import Header
from peirce_export.tensorrt.profiles import chosen, shapes

PROVIDER = "TensorRT"
DEVICE_DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
}
"""What a float tensor is on the device: numpy has no bfloat16, whose bits are the upper half of a float32's."""


class EngineFile(OpenFile):
    """An engine that is loaded on the GPU. Its device buffers hold the largest shapes and are kept between calls.

    Raises:
        ModelFileError: the engine or its header is damaged, or of another TensorRT.
        InputError: there is no GPU, or one that the engine was not built for.
    """

    providers = (PROVIDER,)

    def __init__(self, path: Path) -> None:
        self.path, self.header = path, Header.read(path)
        self.signature = self.header.metadata.signature
        self.profiles = self.header.profiles
        weights = self.header.weights(path)
        if not has_gpu():
            made_for = ", ".join(self.header.capabilities) or "the GPU that built it"
            raise InputError(
                f"{path} runs on an NVIDIA GPU (compute capability {made_for}), and CUDA sees none on this machine; "
                "open it where there is one, or run the ONNX file of the model here"
            )
        try:
            trt = backend(self.header.backend)  # type: ignore[arg-type]  # the header's is one of the two
        except ExportError as error:
            raise InputError(f"{path}: {error}") from error
        if trt.version != self.header.tensorrt and not self.header.flags.get("version_compatible"):
            raise ModelFileError(
                f"{path} was built by TensorRT {self.header.tensorrt}, and {trt.version} is installed; install that "
                "version, or export the model again, with --version-compatible if engines must outlive versions"
            )
        self._device = _Device()
        if self.header.capabilities and self._device.capability not in self.header.capabilities:
            raise InputError(
                f"{path} was built for compute capability {', '.join(self.header.capabilities)}, and this GPU has "
                f"{self._device.capability}; export the model again with --compute-capability {self._device.capability}"
            )
        self._logger = trt.module.Logger(trt.module.Logger.ERROR)
        runtime = trt.module.Runtime(self._logger)
        # A version-compatible engine brings the code of the runtime that it was built with.
        runtime.engine_host_code_allowed = bool(self.header.flags.get("version_compatible"))
        engine = runtime.deserialize_cuda_engine(path.read_bytes())
        if engine is None:
            raise ModelFileError(
                f"{path}: TensorRT {trt.version} cannot load the engine; export the model again"
            )
        if weights is not None:
            refitter = trt.module.Refitter(engine, self._logger)
            parser = trt.module.OnnxParserRefitter(refitter, self._logger)
            if not parser.refit_from_file(str(weights)) or not refitter.refit_cuda_engine():
                raise ModelFileError(
                    f"{path}: TensorRT {trt.version} cannot take its weights from {weights}; export the model again"
                )
        self._engine = engine
        self._contexts: dict[int, Any] = {}
        self._buffers = {
            spec.name: self._device.allocate(self.largest_bytes(spec.name))
            for spec in (*self.signature.inputs, *self.signature.outputs)
        }

    def dtype(self, name: str) -> np.dtype[Any]:
        """The numpy dtype of an input or output; bfloat16 is float32 to a caller."""
        kind = self._spec(name).dtype
        if kind == "float":
            return np.dtype(np.float16 if self.header.metadata.precision == "float16" else np.float32)
        return np.dtype(np.int64 if kind == "int64" else np.bool_)

    def largest_bytes(self, name: str) -> int:
        """The bytes that a tensor's buffer needs, over all profiles."""
        spec = self._spec(name)
        sizes = [int(np.prod(shapes(spec, profile)[2], dtype=np.int64)) for profile in self.profiles]
        return max(sizes) * self._on_device(name).itemsize

    def run(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> list[NDArray[Any]]:
        """Compute outputs, in that order."""
        sizes = {
            dim: size
            for spec in self.signature.inputs
            for dim, size in zip(spec.dims, feeds[spec.name].shape, strict=True)
            if isinstance(dim, str) and dim in self.profiles[0]
        }
        number = chosen(self.profiles, sizes)
        context = self._context(number)
        for name, array in feeds.items():
            given = np.ascontiguousarray(self._narrowed(name, array))
            context.set_input_shape(name, given.shape)
            self._device.upload(given, self._buffers[name])
        for name, address in self._buffers.items():
            context.set_tensor_address(name, address)
        if not context.execute_async_v3(self._device.stream):
            raise InputError(f"{self.path}: TensorRT could not run these inputs, of sizes {sizes}")
        found = {
            name: np.empty(tuple(context.get_tensor_shape(name)), self._on_device(name)) for name in outputs
        }
        for name, array in found.items():
            self._device.download(self._buffers[name], array)
        self._device.wait()
        return [self._widened(name, found[name]) for name in outputs]

    def close(self) -> None:
        """Let go of the engine and its buffers."""
        for address in self._buffers.values():
            self._device.free(address)
        self._buffers, self._contexts, self._engine = {}, {}, None

    def _context(self, number: int) -> Any:
        if number not in self._contexts:
            context = self._engine.create_execution_context()
            context.set_optimization_profile_async(number, self._device.stream)
            self._contexts[number] = context
        return self._contexts[number]

    def _spec(self, name: str) -> Any:
        return next(s for s in (*self.signature.inputs, *self.signature.outputs) if s.name == name)

    def _on_device(self, name: str) -> np.dtype[Any]:
        if self._spec(name).dtype == "float":
            return DEVICE_DTYPES[self.header.metadata.precision]
        return self.dtype(name)

    def _narrowed(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        if self._on_device(name) != np.uint16:
            return array
        bits = array.astype(np.float32).view(np.uint32)
        # To the nearest, ties to even, as hardware rounds.
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)

    def _widened(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        return array if array.dtype != np.uint16 else (array.astype(np.uint32) << 16).view(np.float32)


class _Device:
    """The current GPU and one stream, by NVIDIA's own bindings of the CUDA runtime."""

    def __init__(self) -> None:
        from peirce.extras import require

        require("running an engine", "cuda", extra="tensorrt")
        from cuda.bindings import runtime

        self._cuda: Any = runtime
        number = self._do("cudaGetDevice")
        properties = self._do("cudaGetDeviceProperties", number)
        self.capability = f"{properties.major}.{properties.minor}"
        self.stream = int(self._do("cudaStreamCreate"))

    def allocate(self, size: int) -> int:
        """Memory on the device; its address."""
        try:
            return int(self._do("cudaMalloc", max(1, size)))
        except InputError as error:
            raise InputError(
                f"the GPU has no {size / 1e6:,.0f} MB free for a tensor of the engine's largest profile ({error}); "
                "build the engine with smaller profiles"
            ) from error

    def upload(self, array: NDArray[Any], address: int) -> None:
        """Copy an array to the device."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyHostToDevice
        self._do("cudaMemcpyAsync", address, array.ctypes.data, array.nbytes, kind, self.stream)

    def download(self, address: int, array: NDArray[Any]) -> None:
        """Copy from the device into an array."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self._do("cudaMemcpyAsync", array.ctypes.data, address, array.nbytes, kind, self.stream)

    def wait(self) -> None:
        """Until everything that was asked for is done."""
        self._do("cudaStreamSynchronize", self.stream)

    def free(self, address: int) -> None:
        """Give memory back."""
        self._do("cudaFree", address)

    def _do(self, name: str, *arguments: Any) -> Any:
        status, *result = getattr(self._cuda, name)(*arguments)
        if int(status) != 0:
            raise InputError(f"CUDA's {name} failed: {status.name}")
        return result[0] if result else None
