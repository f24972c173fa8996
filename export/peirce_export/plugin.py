"""The plug-in of `peirce_export`. Its exporter, and torch with it, is imported when a registry asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.model import Exporter


@hookimpl
def register_exporters() -> list[type[Exporter]]:
    """ONNX."""
    from peirce_export.onnx.exporter import OnnxExporter

    return [OnnxExporter]
