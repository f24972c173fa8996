"""`peirce doctor`: what is installed, what really works, and which files are in force."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import typer

from peirce.commands.show import Json, as_json, as_table
from peirce.errors import InputError, PeirceError
from peirce.extras import plugin_devices, plugin_providers

_FATAL = 4
LACKS = "a library, a driver or a device that it needs is missing"
# One ONNX graph, `y = Identity(x)` for a float32 vector, so that a provider can be started without onnx.
_IDENTITY = bytes.fromhex(
    "08083a390a100a017812017922084964656e746974791201675a100a0178120b0a09080112050a0312016e62100a0179"
    "120b0a09080112050a0312016e42040a00100d"
)


def doctor(json: Json = False) -> None:
    """Report Python, torch, ONNX Runtime, the providers that really start, extras, and the registry file."""
    checks = [*_python(), *_torch(), *_onnxruntime(), *_extras(), *_registry()]
    failed = any(check["status"] == "failed" for check in checks)
    if json:
        as_json("peirce.doctor/1", ok=not failed, checks=checks)
    else:
        as_table(
            ("", "what", "finding"), ((check["status"], check["name"], check["finding"]) for check in checks)
        )
    if failed:
        raise typer.Exit(1)


def _found(name: str, finding: object, status: str = "ok", **more: Any) -> dict[str, Any]:
    return {"name": name, "status": status, "finding": str(finding), **more}


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _python() -> list[dict[str, Any]]:
    return [
        _found("peirce", _version("peirce")),
        _found("python", f"{platform.python_version()} at {sys.executable}"),
        _found("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"),
    ]


def _torch() -> list[dict[str, Any]]:
    try:
        import torch
    except (ImportError, OSError) as error:
        return [_found("torch", f"cannot be imported: {error}", "failed")]
    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    described = f"CUDA {torch.version.cuda}: {', '.join(devices)}" if devices else "CPU only"
    return [_found("torch", f"{torch.__version__}, {described}", version=torch.__version__, devices=devices)]


def _onnxruntime() -> list[dict[str, Any]]:
    both = [name for name in ("onnxruntime", "onnxruntime-gpu") if _version(name)]
    if not both:
        return [_found("onnxruntime", "not installed; pip install 'peirce[onnx]'", "absent")]
    checks = []
    if len(both) == 2:
        said = (
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other: CUDA is lost: pip uninstall "
            "-y onnxruntime onnxruntime-gpu, then pip install the one that you want"
        )
        checks.append(_found("onnxruntime", said, "failed"))
    try:
        import onnxruntime
    except (ImportError, OSError) as error:
        return [*checks, _found("onnxruntime", f"cannot be imported: {error}", "failed")]
    onnxruntime.set_default_logger_severity(_FATAL)  # what it would log is in the findings
    checks.append(_found("onnxruntime", f"{onnxruntime.__version__} from {' and '.join(both)}"))
    names = (*onnxruntime.get_available_providers(), *plugin_providers())
    return checks + [_provider(onnxruntime, name) for name in names]


def _provider(onnxruntime: Any, name: str) -> dict[str, Any]:
    """Whether a provider starts, which its being listed does not say."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    try:
        if name in plugin_providers():
            options.add_provider_for_devices(plugin_devices(name), {})
            session = onnxruntime.InferenceSession(_IDENTITY, options)
        else:
            # The fallback is to the CPU, and prints that to standard output.
            session = onnxruntime.InferenceSession(_IDENTITY, options, providers=[name], enable_fallback=0)
        started, cause = _starts(session, name), None
    except InputError as error:
        return _found(f"provider {name}", error, "warning")
    except Exception as error:
        started, cause = False, " ".join(str(error).split())
    if started:
        return _found(f"provider {name}", "starts")
    said = _missing(onnxruntime, name) or cause or LACKS
    return _found(f"provider {name}", f"is listed but does not start: {said}", "warning")


def _starts(session: Any, name: str) -> bool:
    """Whether a session of the one graph computes with a provider."""
    import numpy

    given = numpy.arange(3, dtype=numpy.float32)
    return session.get_providers()[0] == name and bool((session.run(None, {"x": given})[0] == given).all())


def _missing(onnxruntime: Any, name: str) -> str | None:
    """What keeps a provider of ONNX Runtime's own from starting, as far as loading its library tells."""
    kind = name.removesuffix("ExecutionProvider").lower()
    library = Path(onnxruntime.__file__).parent / "capi" / f"libonnxruntime_providers_{kind}.so"
    if library.is_file():
        try:
            ctypes.CDLL(str(library))
        except OSError as error:
            if "undefined symbol" not in str(error):
                return str(error)
    return None


def _extras() -> list[dict[str, Any]]:
    extras: dict[str, dict[str, str | None]] = {}
    for line in requires("peirce") or ():
        found = re.fullmatch(r"([\w.-]+)[^;]*; .*extra == ['\"]([\w-]+)['\"].*", line)
        if found is not None and found[1] != "peirce":  # which names its own extras
            extras.setdefault(found[2], {})[found[1]] = _version(found[1])
    checks = []
    for extra, versions in extras.items():
        missing = [name for name, found in versions.items() if found is None]
        said = ", ".join(f"{name} {found}" for name, found in versions.items() if found)
        if missing:
            said += ("; " if said else "") + f"missing: {', '.join(missing)} ({_remedy(extra)})"
        checks.append(_found(f"extra {extra}", said, "absent" if missing else "ok", versions=versions))
    return checks


def _remedy(extra: str) -> str:
    """How to install an extra; the two distributions of ONNX Runtime must not meet."""
    other = {"gpu": "onnxruntime", "onnx": "onnxruntime-gpu"}.get(extra)
    if other is not None and _version(other):
        return (
            f"pip uninstall -y {other} first: the two exclude each other; then pip install 'peirce[{extra}]'"
        )
    return f"pip install 'peirce[{extra}]'"


def _registry() -> list[dict[str, Any]]:
    from peirce.registry import KINDS, Registry, find_registry_file, installed_plugins

    try:
        file = find_registry_file()
    except PeirceError as error:
        return [_found("registry", error, "failed")]
    checks = [_found("registry", f"{file.where} ({file.origin})", path=file.where, origin=file.origin)]
    there = {plugin.name for plugin in installed_plugins()} | {f"module:{name}" for name in file.modules}
    checks += [
        _found(f"plug-in {name}", "named in the registry file, but not installed", "warning")
        for name in file.plugins
        if name not in there
    ]
    registry = Registry.survey(file)
    checks += [
        _found(f"plug-in {one.plugin}", f"quarantined: {one.cause}", "warning")
        for one in registry.quarantined
    ]
    checks += [_found("conflict", conflict, "failed") for conflict in registry.conflicts]
    parts = {kind: len(registry.entries(kind)) for kind in KINDS}
    said = ", ".join(f"{count} {kind}" for kind, count in parts.items())
    checks.append(_found("parts", f"{said}, of {len(registry.plugins)} plug-ins", parts=parts))
    return checks
