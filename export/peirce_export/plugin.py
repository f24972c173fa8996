"""The plug-in of `peirce_export`. Its exporters, and torch with them, are imported when a registry asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.model import Exporter


@hookimpl
def register_exporters() -> list[type[Exporter]]:
    """ONNX, TensorRT, Triton and torch.export. What they write with is loaded by an export."""
    from peirce_export.onnx.exporter import OnnxExporter
    from peirce_export.tensorrt.exporter import TensorRTExporter
    from peirce_export.torch_export.exporter import TorchExportExporter
    from peirce_export.triton.exporter import TritonExporter

    return [OnnxExporter, TensorRTExporter, TorchExportExporter, TritonExporter]


@hookimpl
def register_runtimes() -> dict[str, str]:
    """ONNX Runtime, TensorRT and torch."""
    return {
        ".onnx": "peirce_export.onnx.runtime:OnnxRuntime",
        ".engine": "peirce_export.tensorrt.runtime:TensorRTRuntime",
        ".pt2": "peirce_export.torch_export.runtime:TorchRuntime",
    }


@hookimpl
def register_commands() -> dict[str, str]:
    """Exporting, verifying, running and timing."""
    return {
        "export": "Export a model to another format and verify it.",
        "verify": "Verify an exported file against its model, a saved model alone.",
        "run": "Run an exported file on the arrays of an .npz file.",
        "bench": "Time exported files, beside torch where their model is at hand.",
        "serve": "Serve a repository of Triton without Docker.",
    }
