"""ONNX Runtime's plug-in providers: packages that each bring a library of one, registered once a process.

ONNX Runtime itself is imported only when one is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from peirce.errors import InputError

TENSORRT_RTX = "NvTensorRTRTXExecutionProvider"
_MODULES: Mapping[str, tuple[str, str]] = {
    TENSORRT_RTX: ("onnxruntime_ep_nv_tensorrt_rtx", "onnxruntime-ep-nv-tensorrt-rtx-cu13"),
}
"""By provider, the module that brings it and its distribution."""


def plugin_providers() -> tuple[str, ...]:
    """The plug-in providers of which a package is installed; whether they start is another question."""
    return tuple(name for name, (module, _) in _MODULES.items() if find_spec(module) is not None)


def plugin_devices(name: str) -> list[Any]:
    """The devices on which a plug-in provider computes, as ONNX Runtime's `add_provider_for_devices` takes them.

    Args:
        name: one of `plugin_providers()`.

    Raises:
        InputError: its library cannot be loaded, or it finds no device.
    """
    import onnxruntime

    module, distribution = _MODULES[name]
    try:
        package = import_module(module)
        onnxruntime.register_execution_provider_library(name, package.get_library_path())
    except Exception as error:  # whatever the package or the loading of its library raises
        if "already registered" not in str(error):
            said = " ".join(str(error).split()).rpartition("with error: ")[2]
            raise InputError(
                f"{name} of {distribution} does not start: {said}; it needs an NVIDIA GPU and its driver"
            ) from error
    found = [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]
    if not found:
        raise InputError(f"{name} of {distribution} does not start: it finds no GPU that it supports")
    return found
