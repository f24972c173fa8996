"""A GPU for dry runs: the face of NVIDIA's driver, of runtime memory and of an engine's execution, on the host.

Engines are built by the real builder. What computes is the ONNX file that an engine was built from, in ONNX Runtime on
the CPU. All of Peirce between a session's call and the driver runs as it does on a GPU.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import sha256
from importlib.machinery import ModuleSpec
from math import prod
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from peirce_export.onnx.content import Content
from peirce_export.onnx.session import OnnxFile
from peirce_export.onnx.verifying import OnnxGraph
from peirce_export.tensorrt import engine, exporter
from peirce_export.tensorrt.backends import backend, is_installed
from peirce_export.tensorrt.building import BuiltEngine, build

CAPABILITY = (8, 9)
"""Of this GPU."""


class Runtime(ModuleType):
    """The functions of `cuda.bindings.runtime` that an engine needs; device memory is the host's."""

    cudaMemcpyKind = SimpleNamespace(  # noqa: N815
        cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2, cudaMemcpyDeviceToDevice=3
    )
    cudaStreamCaptureMode = SimpleNamespace(cudaStreamCaptureModeThreadLocal=1)  # noqa: N815

    def __init__(self) -> None:
        super().__init__("cuda.bindings.runtime")
        self.memory: dict[int, Any] = {}
        self.recorded: list[Callable[[], None]] | None = None

    def __getattr__(self, name: str) -> Callable[..., tuple[int]]:
        if not name.startswith("cuda"):
            raise AttributeError(name)
        return lambda *arguments: (0,)  # what has nothing to do here: streams, and the end of graphs

    def cudaGetDevice(self) -> tuple[int, int]:  # noqa: N802
        return 0, 0

    def cudaGetDeviceProperties(self, number: int) -> tuple[int, Any]:  # noqa: N802
        return 0, SimpleNamespace(major=CAPABILITY[0], minor=CAPABILITY[1])

    def cudaStreamCreate(self) -> tuple[int, int]:  # noqa: N802
        return 0, 1

    def cudaMalloc(self, size: int) -> tuple[int, int]:  # noqa: N802
        memory = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(memory)] = memory
        return 0, ctypes.addressof(memory)

    def cudaFree(self, address: int) -> tuple[int]:  # noqa: N802
        del self.memory[address]
        return (0,)

    def cudaMemcpyAsync(self, to: int, source: int, size: int, kind: int, stream: int) -> tuple[int]:  # noqa: N802
        move = partial(ctypes.memmove, to, source, size)
        if self.recorded is None:
            move()
        else:
            self.recorded.append(move)
        return (0,)

    def cudaStreamBeginCapture(self, stream: int, mode: int) -> tuple[int]:  # noqa: N802
        self.recorded = []
        return (0,)

    def cudaStreamEndCapture(self, stream: int) -> tuple[int, Any]:  # noqa: N802
        graph, self.recorded = self.recorded, None
        return 0, graph

    def cudaGraphInstantiate(self, graph: Any, flags: int) -> tuple[int, Any]:  # noqa: N802
        return 0, graph

    def cudaGraphLaunch(self, graph: Any, stream: int) -> tuple[int]:  # noqa: N802
        for each in graph:
            each()
        return (0,)


class Context:
    """An execution context of TensorRT."""

    def __init__(self, cuda: Runtime, graph: OnnxGraph, opened: OnnxFile) -> None:
        self.cuda, self.graph, self.opened = cuda, graph, opened
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.set_input_shape = self.shapes.__setitem__
        self.set_tensor_address = self.addresses.__setitem__
        self.get_tensor_shape = self.shapes.__getitem__

    def set_optimization_profile_async(self, number: int, stream: int) -> bool:
        return True

    def execute_async_v3(self, stream: int) -> bool:
        if self.cuda.recorded is None:
            self.compute()
        else:
            self.cuda.recorded.append(self.compute)
        return True

    def compute(self) -> None:
        signature = self.graph.metadata.signature
        feeds = {spec.name: self.read(spec.name) for spec in signature.inputs}
        names = [spec.name for spec in signature.outputs]
        for name, array in zip(names, self.opened.run(feeds, names), strict=True):
            self.shapes[name] = array.shape
            if self.graph.metadata.dtype(name) == "bfloat16":
                self.on_device(name, "uint16")[...] = array.astype(np.float32).view(np.uint32) >> 16
            else:
                self.on_device(name, array.dtype)[...] = array

    def read(self, name: str) -> NDArray[Any]:
        dtype = self.graph.metadata.dtype(name)
        if dtype == "bfloat16":
            return (self.on_device(name, "uint16").astype(np.uint32) << 16).view(np.float32)
        return self.on_device(name, dtype).copy()

    def on_device(self, name: str, dtype: Any) -> NDArray[Any]:
        """The memory of a tensor."""
        size = prod(self.shapes[name]) * np.dtype(dtype).itemsize
        held = (ctypes.c_char * size).from_address(self.addresses[name])
        return np.frombuffer(held, dtype).reshape(self.shapes[name])


@contextmanager
def gpu() -> Iterator[None]:
    """Let engines see a GPU on this machine."""
    cuda, graphs = Runtime(), dict[bytes, Any]()

    def remembered(file: Path, *arguments: Any) -> BuiltEngine:
        built = build(file, *arguments)
        graph = OnnxGraph(Content.read(file))
        graphs[sha256(built.plan).digest()] = graph, ends.enter_context(graph.opened(None))
        return built

    def runtime(logger: object) -> Any:
        def deserialized(plan: bytes) -> Any:
            return SimpleNamespace(
                create_execution_context=partial(Context, cuda, *graphs[sha256(plan).digest()])
            )

        return SimpleNamespace(deserialize_cuda_engine=deserialized)

    package, bindings = ModuleType("cuda"), ModuleType("cuda.bindings")
    package.__spec__, bindings.runtime = ModuleSpec("cuda", None), cuda  # type: ignore[attr-defined]
    with (
        ExitStack() as ends,
        patch.dict(sys.modules, {"cuda": package, "cuda.bindings": bindings, "cuda.bindings.runtime": cuda}),
        patch.object(engine, "has_gpu", lambda: True),
        patch.object(exporter, "build", remembered),
    ):
        if is_installed("rtx"):
            ends.enter_context(patch.object(backend("rtx").module, "Runtime", runtime))
        yield
