"""Where the parts of a model come from, and how that differs where the model is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from peirce.errors import RegistryError
from peirce.model import PROVENANCE_FORMAT
from peirce.registry import canonical

if TYPE_CHECKING:
    from peirce.parts import Plan
    from peirce.registry import Registry


def provenance_of(plan: Plan, registry: Registry) -> dict[str, Any]:
    """For each part of a plan its plug-in, distribution and version, and the versions of Peirce and torch."""
    parts = {f"{each.kind}.{each.name}": _origin(registry, each.kind, each.name) for each in plan.parts}
    return {
        "format": PROVENANCE_FORMAT,
        "peirce": version("peirce-core"),
        "torch": version("torch"),
        "parts": dict(sorted(parts.items())),
    }


def differences(recorded: Mapping[str, Any], registry: Registry) -> tuple[list[str], list[str]]:
    """Clauses for the parts of a recorded provenance that this registry lacks, and for those that it has otherwise."""
    missing, other = [], []
    for part, written in recorded["parts"].items():
        origin = _renamed(written)
        try:
            found = _origin(registry, *part.split(".", 1))
        except RegistryError as error:
            missing.append(f"{part} from {_description(origin)} ({error})")
            continue
        if found != origin:
            other.append(f"{part} was from {_description(origin)} and is now from {_description(found)}")
    return missing, other


def _origin(registry: Registry, kind: str, name: str) -> dict[str, Any]:
    entry = registry.entry(kind, name)
    return {"plugin": entry.plugin, "distribution": entry.distribution, "version": entry.version}


def _renamed(origin: Mapping[str, Any]) -> dict[str, Any]:
    """An origin with today's names: until 0.2 the one distribution `peirce` had every built-in plug-in."""
    plugin = canonical(origin["plugin"])
    distribution = plugin.partition(":")[0] if origin["distribution"] == "peirce" else origin["distribution"]
    return {**origin, "plugin": plugin, "distribution": distribution}


def _description(origin: Mapping[str, Any]) -> str:
    if origin["distribution"] is None:
        return f"plug-in {origin['plugin']}"
    return f"{origin['distribution']} {origin['version']} ({origin['plugin']})"
