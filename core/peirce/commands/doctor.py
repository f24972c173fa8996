"""`peirce doctor`: what is installed, what really works, and which files are in force."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

import typer

from peirce.commands.lines import published
from peirce.commands.show import Json, print_json, print_table
from peirce.errors import PeirceError, one_line
from peirce.resources import usable_cores

Findings = Iterator[dict[str, Any]]
GROUP = "peirce.doctor"
"""The entry points of functions that give findings of what a distribution needs, such as a runtime and its devices."""


def doctor(json: Json = False) -> None:
    """Report Python, torch, ONNX Runtime, the providers that really start, extras, and the registry file."""
    checks = [*_python(), *_torch(), *_reports(), *_distributions(), *_registry()]
    failed = any(check["status"] == "failed" for check in checks)
    if json:
        print_json("peirce.doctor/1", ok=not failed, checks=checks)
    else:
        rows = ((check["status"], check["name"], check["finding"]) for check in checks)
        print_table(("", "what", "finding"), rows)
    if failed:
        raise typer.Exit(1)


def finding(name: str, found: object, status: str = "ok", **more: Any) -> dict[str, Any]:
    """One line of the report; a status is `ok`, `absent`, `warning` or `failed`."""
    return {"name": name, "status": status, "finding": str(found), **more}


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _python() -> Findings:
    yield finding("python", f"{platform.python_version()} at {sys.executable}")
    yield finding("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs")
    cores = usable_cores()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    detail, status = "", "ok"
    if threads.isdecimal() and int(threads) > cores:
        detail, status = f"; OMP_NUM_THREADS={threads} is more, which is slower: set it to {cores}", "warning"
    yield finding("cores", f"{cores} that this process may use{detail}", status)


def _torch() -> Findings:
    try:
        import torch
    except (ImportError, OSError) as error:
        absent = _version("torch") is None
        reason = (
            "not installed; pip install 'peirce-core[torch]'" if absent else f"cannot be imported: {error}"
        )
        yield finding("torch", reason, "absent" if absent else "failed")
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
    yield finding("torch", f"{found}, {described}", version=found, devices=devices)


def _reports() -> Findings:
    """The findings of distributions, such as on a runtime and its devices."""
    from peirce.registry import announcements, guard_plugin_code, import_announced

    for entry in announcements(GROUP):
        try:
            with guard_plugin_code(entry.target):
                findings = tuple(import_announced(entry)())
            yield from findings
        except Exception as error:
            yield finding(
                entry.name, f"the report of {entry.distribution} fails: {one_line(error)}", "warning"
            )


def _distributions() -> Findings:
    """Which distributions of Peirce are installed, and what their requirements and extras lack."""
    for name in published():
        if (found := _version(name)) is None:
            yield finding(name, f"not installed; pip install {name}", "absent")
            continue
        needed, extras = _packages(name)
        missing = [package for package in needed if _version(package) is None]
        lacks = f"; missing: {', '.join(missing)} (pip install {name})" if missing else ""
        yield finding(name, found + lacks, "failed" if missing else "ok", version=found)
        for extra, packages in extras.items():
            versions = {package: _version(package) for package in packages}
            items = [", ".join(f"{package} {found}" for package, found in versions.items() if found)]
            if missing := [package for package, found in versions.items() if found is None]:
                items.append(f"missing: {', '.join(missing)} ({_remedy(name, extra)})")
            status = "absent" if missing else "ok"
            yield finding(f"{name}[{extra}]", "; ".join(filter(None, items)), status, versions=versions)


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
    """How to install an extra; only one of the two distributions of ONNX Runtime may be installed."""
    other = {"gpu": "onnxruntime", "onnx": "onnxruntime-gpu", "run": "onnxruntime-gpu"}.get(extra)
    first = f"pip uninstall -y {other} first: the two exclude each other; then "
    return (first if other and _version(other) else "") + f"pip install '{name}[{extra}]'"


def _registry() -> Findings:
    from peirce.registry import KINDS, Registry, all_plugins, find_registry_file

    try:
        file = find_registry_file()
    except PeirceError as error:
        yield finding("registry", error, "failed")
        return
    yield finding("registry", f"{file.where} ({file.origin})", path=file.where, origin=file.origin)
    for name in sorted(file.plugins.keys() - {plugin.name for plugin in all_plugins(file)}):
        yield finding(f"plug-in {name}", "named in the registry file, but not installed", "warning")
    registry = Registry.discover(file, strict=False)
    for one in registry.quarantined:
        yield finding(f"plug-in {one.plugin}", f"quarantined: {one.cause}", "warning")
    for conflict in registry.conflicts:
        yield finding("conflict", conflict, "failed")
    parts = {kind: len(registry.entries(kind)) for kind in KINDS}
    detail = ", ".join(f"{count} {kind}" for kind, count in parts.items())
    yield finding("parts", f"{detail}, of {len(registry.plugins)} plug-ins", parts=parts)
