"""The two distributions of TensorRT as one value: for RTX, ahead of time; for data centres, on the machine's GPU."""

from __future__ import annotations

import ctypes
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from attrs import frozen

from peirce.errors import ExportError, UnavailableError

Name = Literal["rtx", "tensorrt"]
RTX = "pip install 'peirce[tensorrt-rtx]'"
_MODULES: dict[Name, str] = {"rtx": "tensorrt_rtx", "tensorrt": "tensorrt"}
_INSTALL: dict[Name, str] = {
    "rtx": f"`{RTX}`, which builds for GeForce and RTX GPUs without having one",
    "tensorrt": "`pip install 'peirce[tensorrt]'` on the machine whose GPU will run the engine",
}


@frozen(kw_only=True)
class Backend:
    """One distribution of TensorRT.

    Args:
        name: `rtx` builds for named compute capabilities and needs no GPU; `tensorrt` builds for the machine's GPU.
        module: the imported bindings; both have the same API.
    """

    name: Name
    module: Any

    @property
    def version(self) -> str:
        """The version of the bindings."""
        return str(self.module.__version__)

    def capabilities(self) -> list[str]:
        """The compute capabilities that engines can be built for ahead of time, such as `8.9`; none for `tensorrt`."""
        known = getattr(self.module, "ComputeCapability", None) if self.name == "rtx" else None
        return sorted((_dotted(name) for name in dir(known) if name.startswith("SM")), key=float)

    def parse_capability(self, text: str) -> str:
        """A compute capability, `8.9` or `SM89`, as `8.9`.

        Raises:
            ExportError: engines cannot be built for it.
        """
        plain = text.upper().removeprefix("SM").replace(".", "")
        if not plain.isdecimal() or _dotted(plain) not in self.capabilities():
            raise ExportError(
                f"TensorRT for RTX {self.version} does not build for compute capability {text}, only for "
                f"{', '.join(self.capabilities())}; for other GPUs, such as H100, run `--backend tensorrt` on one"
            )
        return _dotted(plain)


def is_installed(name: Name) -> bool:
    """Whether a distribution is installed; does not import it."""
    return find_spec(_MODULES[name]) is not None


def backend(name: Name | None = None) -> Backend:
    """A distribution of TensorRT; None takes `tensorrt` where it is installed and a GPU is there, else `rtx`.

    Raises:
        UnavailableError: it is not installed, or needs a GPU that is not there.
    """
    if name is None:
        name = "tensorrt" if is_installed("tensorrt") and has_gpu() else "rtx"
    if not is_installed(name):
        other: Name = "rtx" if name == "tensorrt" else "tensorrt"
        hint = f"; or use --backend {other}, which is installed" if is_installed(other) else ""
        raise UnavailableError(
            f"the TensorRT backend {name!r} is not installed; run {_INSTALL[name]}{hint}"
        ) from ModuleNotFoundError(f"No module named {_MODULES[name]!r}", name=_MODULES[name])
    if name == "tensorrt" and not has_gpu():
        raise UnavailableError(
            "the backend 'tensorrt' builds on the GPU that will run the engine, and this machine has none that CUDA "
            f"sees; run the same command there, or build ahead of time with --backend rtx ({RTX})"
        )
    try:
        return Backend(name=name, module=import_module(_MODULES[name]))
    except (ImportError, OSError) as error:
        raise UnavailableError(
            f"the TensorRT backend {name!r} is installed but does not start: {error}; `peirce doctor` says more"
        ) from error


def has_gpu() -> bool:
    """Whether CUDA sees a GPU, asked of the driver, without torch."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if hasattr(ctypes, "WinDLL") else "libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def _dotted(name: str) -> str:
    digits = name.removeprefix("SM")
    return f"{digits[:-1]}.{digits[-1]}"
