"""What `peirce doctor` reports of ONNX Runtime: which one is installed, and which of its providers really start."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from peirce.commands import finding
from peirce.errors import InputError
from peirce_export.onnx.plugin_providers import plugin_devices, plugin_providers

_FATAL = 4
LACKS = "a library, a driver or a device that it needs is missing"
# One ONNX graph, `y = Identity(x)` for a float32 vector, so that a provider can be started without onnx.
_IDENTITY = bytes.fromhex(
    "08083a390a100a017812017922084964656e746974791201675a100a0178120b0a09080112050a0312016e62100a0179"
    "120b0a09080112050a0312016e42040a00100d"
)


def findings() -> Iterator[dict[str, Any]]:
    """ONNX Runtime, and each of its providers with whether it starts."""
    both = [name for name in ("onnxruntime", "onnxruntime-gpu") if _version(name)]
    if not both:
        yield finding("onnxruntime", "not installed; pip install 'peirce-export[run]'", "absent")
        return
    if len(both) == 2:
        detail = (
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other: CUDA is lost: pip uninstall "
            "-y onnxruntime onnxruntime-gpu, then pip install the one that you want"
        )
        yield finding("onnxruntime", detail, "failed")
    try:
        import onnxruntime
    except (ImportError, OSError) as error:
        yield finding("onnxruntime", f"cannot be imported: {error}", "failed")
        return
    onnxruntime.set_default_logger_severity(_FATAL)  # what it would log is in the findings
    yield finding("onnxruntime", f"{onnxruntime.__version__} from {' and '.join(both)}")
    for name in (*onnxruntime.get_available_providers(), *plugin_providers()):
        yield _provider(onnxruntime, name)


def _provider(onnxruntime: Any, name: str) -> dict[str, Any]:
    """Whether a provider starts, which its being listed does not say: whether it computes the one graph."""
    import numpy

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    given, cause = numpy.arange(3, dtype=numpy.float32), None
    try:
        more: dict[str, Any] = {"providers": [name], "enable_fallback": 0}  # to the CPU, with a print
        if name in plugin_providers():
            options.add_provider_for_devices(plugin_devices(name), {})
            more = {}
        session = onnxruntime.InferenceSession(_IDENTITY, options, **more)
        if session.get_providers()[0] == name and (session.run(None, {"x": given})[0] == given).all():
            return finding(f"provider {name}", "starts")
    except InputError as error:
        return finding(f"provider {name}", error, "warning")
    except Exception as error:
        cause = " ".join(str(error).split())
    detail = _missing(onnxruntime, name) or cause or LACKS
    return finding(f"provider {name}", f"is listed but does not start: {detail}", "warning")


def _missing(onnxruntime: Any, name: str) -> str | None:
    """Why one of ONNX Runtime's own providers does not start, as far as loading its library shows."""
    kind = name.removesuffix("ExecutionProvider").lower()
    library = Path(onnxruntime.__file__).parent / "capi" / f"libonnxruntime_providers_{kind}.so"
    try:
        if library.is_file():
            ctypes.CDLL(str(library))
    except OSError as error:
        if "undefined symbol" not in str(error):
            return str(error)
    return None


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
