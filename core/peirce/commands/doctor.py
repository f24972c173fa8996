"""`peirce doctor`: what is installed, what really works, and which files are in force."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import typer

from peirce.commands.lines import published
from peirce.commands.show import Json, as_json, as_table
from peirce.errors import InputError, PeirceError
from peirce.extras import plugin_devices, plugin_providers
from peirce.resources import usable_cores

_FATAL = 4
LACKS = "a library, a driver or a device that it needs is missing"
# One ONNX graph, `y = Identity(x)` for a float32 vector, so that a provider can be started without onnx.
_IDENTITY = bytes.fromhex(
    "08083a390a100a017812017922084964656e746974791201675a100a0178120b0a09080112050a0312016e62100a0179"
    "120b0a09080112050a0312016e42040a00100d"
)
Findings = Iterator[dict[str, Any]]


def doctor(json: Json = False) -> None:
    """Report Python, torch, ONNX Runtime, the providers that really start, extras, and the registry file."""
    checks = [*_python(), *_torch(), *_onnxruntime(), *_distributions(), *_registry()]
    failed = any(check["status"] == "failed" for check in checks)
    if json:
        as_json("peirce.doctor/1", ok=not failed, checks=checks)
    else:
        rows = ((check["status"], check["name"], check["finding"]) for check in checks)
        as_table(("", "what", "finding"), rows)
    if failed:
        raise typer.Exit(1)


def _finding(name: str, finding: object, status: str = "ok", **more: Any) -> dict[str, Any]:
    return {"name": name, "status": status, "finding": str(finding), **more}


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _python() -> Findings:
    yield _finding("python", f"{platform.python_version()} at {sys.executable}")
    yield _finding("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs")
    cores = usable_cores()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    more = threads.isdecimal() and int(threads) > cores
    detail = (
        f"; OMP_NUM_THREADS asks for {threads} threads on them, which slows all: set it to {cores}"
        if more
        else ""
    )
    yield _finding("cores", f"{cores} that this process may use{detail}", "warning" if more else "ok")


def _torch() -> Findings:
    try:
        import torch
    except (ImportError, OSError) as error:
        absent = _version("torch") is None
        finding = (
            "not installed; pip install 'peirce-core[torch]'" if absent else f"cannot be imported: {error}"
        )
        yield _finding("torch", finding, "absent" if absent else "failed")
        return
    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    built = (
        f"torch is built for CUDA {torch.version.cuda}"
        if torch.version.cuda
        else "torch is built for the CPU"
    )
    nothing = f"no GPU found; {built}, and models compute on the CPU"
    described = f"CUDA {torch.version.cuda}: {', '.join(devices)}" if devices else nothing
    found = torch.__version__
    yield _finding("torch", f"{found}, {described}", version=found, devices=devices)


def _onnxruntime() -> Findings:
    both = [name for name in ("onnxruntime", "onnxruntime-gpu") if _version(name)]
    if not both:
        yield _finding("onnxruntime", "not installed; pip install 'peirce-export[run]'", "absent")
        return
    if len(both) == 2:
        detail = (
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other: CUDA is lost: pip uninstall "
            "-y onnxruntime onnxruntime-gpu, then pip install the one that you want"
        )
        yield _finding("onnxruntime", detail, "failed")
    try:
        import onnxruntime
    except (ImportError, OSError) as error:
        yield _finding("onnxruntime", f"cannot be imported: {error}", "failed")
        return
    onnxruntime.set_default_logger_severity(_FATAL)  # what it would log is in the findings
    yield _finding("onnxruntime", f"{onnxruntime.__version__} from {' and '.join(both)}")
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
            return _finding(f"provider {name}", "starts")
    except InputError as error:
        return _finding(f"provider {name}", error, "warning")
    except Exception as error:
        cause = " ".join(str(error).split())
    detail = _missing(onnxruntime, name) or cause or LACKS
    return _finding(f"provider {name}", f"is listed but does not start: {detail}", "warning")


def _missing(onnxruntime: Any, name: str) -> str | None:
    """What keeps a provider of ONNX Runtime's own from starting, as far as loading its library tells."""
    kind = name.removesuffix("ExecutionProvider").lower()
    library = Path(onnxruntime.__file__).parent / "capi" / f"libonnxruntime_providers_{kind}.so"
    try:
        if library.is_file():
            ctypes.CDLL(str(library))
    except OSError as error:
        if "undefined symbol" not in str(error):
            return str(error)
    return None


def _distributions() -> Findings:
    """Which distributions of Peirce are installed, and what their requirements and extras lack."""
    for name in published():
        if (found := _version(name)) is None:
            yield _finding(name, f"not installed; pip install {name}", "absent")
            continue
        needed, extras = _packages(name)
        missing = [package for package in needed if _version(package) is None]
        lacks = f"; missing: {', '.join(missing)} (pip install {name})" if missing else ""
        yield _finding(name, found + lacks, "failed" if missing else "ok", version=found)
        for extra, packages in extras.items():
            versions = {package: _version(package) for package in packages}
            items = [", ".join(f"{package} {found}" for package, found in versions.items() if found)]
            if missing := [package for package, found in versions.items() if found is None]:
                items.append(f"missing: {', '.join(missing)} ({_remedy(name, extra)})")
            status = "absent" if missing else "ok"
            yield _finding(f"{name}[{extra}]", "; ".join(filter(None, items)), status, versions=versions)


def _packages(name: str) -> tuple[list[str], dict[str, list[str]]]:
    """The packages of others that a distribution requires, and those of each of its extras."""
    needed: list[str] = []
    extras: dict[str, list[str]] = {}
    for line in requires(name) or ():
        package = re.match(r"[\w.-]+", line)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if package is not None and package[0] not in published():
            (needed if extra is None else extras.setdefault(extra[1], [])).append(package[0])
    return needed, extras


def _remedy(name: str, extra: str) -> str:
    """How to install an extra; the two distributions of ONNX Runtime must not meet."""
    other = {"gpu": "onnxruntime", "onnx": "onnxruntime-gpu", "run": "onnxruntime-gpu"}.get(extra)
    first = f"pip uninstall -y {other} first: the two exclude each other; then "
    return (first if other and _version(other) else "") + f"pip install '{name}[{extra}]'"


def _registry() -> Findings:
    from peirce.registry import KINDS, Registry, all_plugins, find_registry_file

    try:
        file = find_registry_file()
    except PeirceError as error:
        yield _finding("registry", error, "failed")
        return
    yield _finding("registry", f"{file.where} ({file.origin})", path=file.where, origin=file.origin)
    for name in sorted(file.plugins.keys() - {plugin.name for plugin in all_plugins(file)}):
        yield _finding(f"plug-in {name}", "named in the registry file, but not installed", "warning")
    registry = Registry.discover(file, strict=False)
    for one in registry.quarantined:
        yield _finding(f"plug-in {one.plugin}", f"quarantined: {one.cause}", "warning")
    for conflict in registry.conflicts:
        yield _finding("conflict", conflict, "failed")
    parts = {kind: len(registry.entries(kind)) for kind in KINDS}
    detail = ", ".join(f"{count} {kind}" for kind, count in parts.items())
    yield _finding("parts", f"{detail}, of {len(registry.plugins)} plug-ins", parts=parts)
