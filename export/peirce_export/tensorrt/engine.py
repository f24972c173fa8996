"""An engine on an NVIDIA GPU: numpy in and numpy out, without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peirce.errors import InputError, ModelFileError, UnavailableError
from peirce_export.runtimes import LoadedModel
from peirce_export.tensorrt.backends import backend, has_gpu
from peirce_export.tensorrt.header import Header
from peirce_export.tensorrt.profiles import choose

PROVIDER = "TensorRT"
GRAPHS = 8
"""The most CUDA graphs that are kept, those of the sizes that ran last."""


class EngineFile(LoadedModel):
    """An engine that is loaded on the GPU. Its device buffers hold the largest shapes and are kept between calls.

    Args:
        path: the engine; its header lies beside it.
        cuda_graphs: record what the GPU does for inputs of some sizes, and replay it when the same sizes come again,
            which spares launching kernel by kernel. Each of the sizes that ran last has a graph and memory of its own.

    Raises:
        ModelFileError: the engine or its header is damaged, or of another TensorRT.
        UnavailableError: there is no TensorRT or no GPU.
        InputError: the GPU is one that the engine was not built for.
    """

    providers = (PROVIDER,)

    def __init__(self, path: Path, *, cuda_graphs: bool = False) -> None:
        self.path, self.header = path, Header.read(path)
        self.signature = self.header.metadata.signature
        self.profiles = self.header.profiles
        weights = self.header.weights(path)
        if not has_gpu():
            made_for = ", ".join(self.header.capabilities) or "the GPU that built it"
            raise UnavailableError(
                f"{path} runs on an NVIDIA GPU (compute capability {made_for}), and CUDA sees none on this machine; "
                "open it where there is one, or run the ONNX file of the model here"
            )
        try:
            trt = backend(self.header.backend)  # type: ignore[arg-type]  # the header's is one of the two
        except UnavailableError as error:
            raise UnavailableError(f"{path}: {error}") from error
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
                f"{path}: TensorRT {trt.version} cannot load the engine, which {self.header.tensorrt} built; export "
                "the model again"
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
        self._graphs: dict[Any, tuple[Any, Any]] | None = {} if cuda_graphs else None
        self._buffers = {name: self._device.allocate(size) for name, size in self.header.buffers().items()}

    def dtype(self, name: str) -> np.dtype[Any]:
        """The numpy dtype of an input or output; bfloat16 is float32 to a caller."""
        return self.header.metadata.array_dtype(name)

    def run(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> list[NDArray[Any]]:
        """Compute outputs, in that order."""
        sizes = {
            dim: size
            for spec in self.signature.inputs
            for dim, size in zip(spec.dims, feeds[spec.name].shape, strict=True)
            if isinstance(dim, str) and dim in self.profiles[0]
        }
        arrays = {name: np.ascontiguousarray(self._narrow(name, array)) for name, array in feeds.items()}
        context = self._compute(choose(self.profiles, sizes), arrays)
        found = {
            name: np.empty(tuple(context.get_tensor_shape(name)), self.header.on_device(name))
            for name in outputs
        }
        for name, array in found.items():
            self._device.download(self._buffers[name], array)
        self._device.call("cudaStreamSynchronize", self._device.stream)
        return [self._widen(name, found[name]) for name in outputs]

    def close(self) -> None:
        """Release the engine and its buffers."""
        for _, graph in (self._graphs or {}).values():
            self._device.call("cudaGraphExecDestroy", graph)
        for address in self._buffers.values():
            self._device.call("cudaFree", address)
        self._buffers, self._contexts, self._graphs, self._engine = {}, {}, None, None

    def _compute(self, number: int, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """Run the engine with a profile; return the execution context, which knows the shapes of the outputs."""
        for name, array in arrays.items():
            self._device.upload(array, self._buffers[name])
        if self._graphs is None:
            if number not in self._contexts:
                self._contexts[number] = self._context(number)
            self._prepare(self._contexts[number], arrays)
            self._start(self._contexts[number])
            return self._contexts[number]
        key = (number, *((name, array.shape) for name, array in arrays.items()))
        if key in self._graphs:
            self._graphs[key] = context, graph = self._graphs.pop(key)  # the last again
            self._device.call("cudaGraphLaunch", graph, self._device.stream)
            return context
        if len(self._graphs) == GRAPHS:
            _, graph = self._graphs.pop(next(iter(self._graphs)))
            self._device.call("cudaGraphExecDestroy", graph)
        # A graph is of one context, whose shapes stay.
        context = self._context(number)
        self._prepare(context, arrays)
        self._start(context)  # the first run of a shape does what cannot be recorded
        self._device.call("cudaStreamSynchronize", self._device.stream)
        self._graphs[key] = context, self._device.capture(partial(self._start, context))
        return context

    def _context(self, number: int) -> Any:
        context = self._engine.create_execution_context()
        context.set_optimization_profile_async(number, self._device.stream)
        return context

    def _prepare(self, context: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name, array in arrays.items():
            context.set_input_shape(name, array.shape)
        for name, address in self._buffers.items():
            context.set_tensor_address(name, address)

    def _start(self, context: Any) -> None:
        if not context.execute_async_v3(self._device.stream):
            raise InputError(f"{self.path}: TensorRT could not run these inputs; give inputs of other sizes")

    def _narrow(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        if self.header.on_device(name) != np.uint16:
            return array
        bits = array.astype(np.float32).view(np.uint32)
        # To the nearest, ties to even, as hardware rounds.
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)

    def _widen(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        return array if array.dtype != np.uint16 else (array.astype(np.uint32) << 16).view(np.float32)


class _Device:
    """The current GPU and one stream, by NVIDIA's own bindings of the CUDA runtime."""

    def __init__(self) -> None:
        from peirce.extras import require

        require("running an engine", "cuda", extra="peirce-export[tensorrt]")
        from cuda.bindings import runtime

        self._cuda: Any = runtime
        number = self.call("cudaGetDevice")
        properties = self.call("cudaGetDeviceProperties", number)
        self.capability = f"{properties.major}.{properties.minor}"
        self.stream = int(self.call("cudaStreamCreate"))

    def allocate(self, size: int) -> int:
        """Allocate memory on the device and return its address."""
        try:
            return int(self.call("cudaMalloc", max(1, size)))
        except InputError as error:
            raise InputError(
                f"the GPU has no {size / 1e6:,.0f} MB free for a tensor of the engine's largest profile ({error}); "
                "build the engine with smaller profiles"
            ) from error

    def upload(self, array: NDArray[Any], address: int) -> None:
        """Copy an array to the device."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyHostToDevice
        self.call("cudaMemcpyAsync", address, array.ctypes.data, array.nbytes, kind, self.stream)

    def download(self, address: int, array: NDArray[Any]) -> None:
        """Copy from the device into an array."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self.call("cudaMemcpyAsync", array.ctypes.data, address, array.nbytes, kind, self.stream)

    def capture(self, start: Callable[[], None]) -> Any:
        """Record the work of `start` as a graph, without doing it."""
        mode = self._cuda.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self.call("cudaStreamBeginCapture", self.stream, mode)
        try:
            start()
        finally:
            graph = self.call("cudaStreamEndCapture", self.stream)
        try:
            return self.call("cudaGraphInstantiate", graph, 0)
        finally:
            self.call("cudaGraphDestroy", graph)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the CUDA runtime and return its result.

        Raises:
            InputError: it failed.
        """
        status, *result = getattr(self._cuda, name)(*arguments)
        if int(status) != 0:
            raise InputError(f"CUDA's {name} failed: {status.name}")
        return result[0] if result else None
