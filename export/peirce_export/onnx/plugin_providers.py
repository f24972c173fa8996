"""The plug-in providers of ONNX Runtime, which packages of their own bring."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from peirce.errors import InputError

TENSORRT_RTX = "NvTensorRTRTXExecutionProvider"
"""The one plug-in provider of ONNX Runtime, which a package of its own brings."""
_RTX_MODULE, _RTX = "onnxruntime_ep_nv_tensorrt_rtx", f"{TENSORRT_RTX} of onnxruntime-ep-nv-tensorrt-rtx-cu13"


def plugin_providers() -> tuple[str, ...]:
    """The plug-in providers of which a package is installed; whether they start is another question."""
    return () if find_spec(_RTX_MODULE) is None else (TENSORRT_RTX,)


def plugin_devices(name: str) -> list[Any]:
    """The devices on which a plug-in provider computes, as ONNX Runtime's `add_provider_for_devices` takes them.

    Raises:
        InputError: its library cannot be loaded, or it finds no device.
    """
    import onnxruntime

    try:
        package = import_module(_RTX_MODULE)
        onnxruntime.register_execution_provider_library(name, package.get_library_path())
    except Exception as error:  # whatever the package or the loading of its library raises
        if "already registered" not in str(error):
            message = " ".join(str(error).split()).rpartition("with error: ")[2]
            raise InputError(
                f"{_RTX} does not start: {message}; it needs an NVIDIA GPU and its driver"
            ) from error
    found = [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]
    if not found:
        raise InputError(f"{_RTX} does not start: it finds no GPU that it supports")
    return found
