"""What a run of the suite did and did not, as a document; a plug-in may ship one, and lists show it."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peirce.registry import EntryPoint

if TYPE_CHECKING:
    from peirce_testing.conformance import Conformance, Outcome

SCHEMA = "peirce.plugins.certificate/1"
FILE = "certificate.json"
"""How the name of a certificate ends that a plug-in ships: in its package, or beside the module that it is."""
EXECUTED = ("passed", "failed", "expected failure")
_VERSIONS = ("peirce", "torch", "numpy", "onnx", "onnxruntime", "tensorrt-rtx")


def certificate_of(
    plugin: EntryPoint, suite: Conformance, outcomes: Iterable[Outcome], *, passed: bool, chosen: str = ""
) -> dict[str, Any]:
    """The document on one run of a suite over a plug-in, and on how its checks ended.

    Args:
        plugin, suite, outcomes: the run.
        passed: whether it is a success.
        chosen: why checks that `suite` would run were not: the expression that chose others; empty for none.
    """
    ended = {each.name: each for each in outcomes}
    parts: dict[str, dict[str, dict[str, str]]] = {}
    for check, case in suite.every:
        name, said = case.name_of(check), {"outcome": "skipped", "reason": suite.left_out(check) or chosen}
        if one := ended.get(name):
            ran = one.outcome in EXECUTED
            said = {"outcome": one.outcome if ran else "skipped"}
            if one.message:
                said["reason"] = f"{'' if ran else f'{one.outcome}: '}{_briefly(one.message)}"
        parts.setdefault(f"{case.entry.kind}.{case.entry.name}", {})[check.name] = said
    every = [each["outcome"] for checks in parts.values() for each in checks.values()]
    return {
        "schema": SCHEMA,
        "plugin": plugin.name,
        "version": plugin.version,
        "sources": digest_of(plugin.top),
        "passed": passed,
        "checks": {
            "expected": len(every),
            "executed": sum(each in EXECUTED for each in every),
            "failed": every.count("failed"),
            "skipped": every.count("skipped"),
        },
        "effort": "thorough" if suite.thorough else "quick" if suite.quick else "plain",
        # Every run draws the same examples: their number seeds each, and its number the values.
        "seeds": {"parameters": 0, "examples": "0, 1, 2, ... for the drawn examples of each check"},
        "versions": {"python": platform.python_version(), **_versions()},
        "platform": f"{platform.system()} {platform.machine()}",
        "parts": parts,
    }


def _briefly(message: str) -> str:
    """What was found, or else the first line."""
    lines = message.splitlines()
    found = [line.partition(":")[2].strip() for line in lines if line.lstrip().startswith("found:")]
    return found[0] if found else lines[0]


def _versions() -> dict[str, str]:
    """Of the distributions that are installed."""
    found = {}
    for name in _VERSIONS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def digest_of(top: str) -> str:
    """SHA-256 over the Python sources of a package, or of the module that stands for one; empty without any."""
    if (where := _folder(top)) is None:
        return ""
    folder, begins = where
    paths = folder.glob(f"{top}.py") if begins else folder.rglob("*.py")
    files, total = sorted((path.relative_to(folder).as_posix(), path) for path in paths), sha256()
    for name, path in files:
        total.update(f"{name}\n{sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest() if files else ""


def _folder(top: str) -> tuple[Path, str] | None:
    """Where a package's or a module's files lie, and what their names begin with; nothing is imported."""
    found = find_spec(top)
    if found is None:
        return None
    if found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations))), ""
    return (Path(found.origin).parent, f"{top}.") if found.origin else None


def shipped(plugin: EntryPoint) -> Mapping[str, Any] | None:
    """The certificate of a plug-in that it ships itself: `certificate.json`, or a file whose name ends so."""
    where = _folder(plugin.top)
    for path in sorted(where[0].glob(f"{where[1]}*{FILE}")) if where else ():
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document["schema"] == SCHEMA and document["plugin"] == plugin.name:
                return dict(document)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def standing(plugin: EntryPoint) -> str:
    """What a plug-in's certificate says of it as it is installed now, in a few words; empty without one."""
    document = shipped(plugin)
    if document is None:
        return ""
    try:
        checks, passed = document["checks"], document["passed"]
        said = f"{'passed' if passed else 'failed'}, {checks['executed']} of {checks['expected']} checks ran"
    except (KeyError, TypeError):
        return "its certificate cannot be read"
    other = document.get("sources") != digest_of(plugin.top)
    return f"{said}; of other sources than these" if other else said
