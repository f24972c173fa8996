"""Where the parts of a model come from, and what differs where it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from peirce.model import PROVENANCE_FORMAT

if TYPE_CHECKING:
    from peirce.parts import Plan
    from peirce.registry import Registry


def provenance_of(plan: Plan, registry: Registry) -> dict[str, Any]:
    """For each part of a plan its plug-in, distribution and version, and the versions of Peirce and torch."""
    parts = {}
    for planned in plan.parts:
        entry = registry.entry(planned.kind, planned.name)
        parts[f"{planned.kind}.{planned.name}"] = {
            "plugin": entry.plugin,
            "distribution": entry.distribution,
            "version": entry.version,
        }
    return {
        "format": PROVENANCE_FORMAT,
        "peirce": version("peirce"),
        "torch": version("torch"),
        "parts": dict(sorted(parts.items())),
    }


def differences(recorded: Mapping[str, Any], registry: Registry) -> tuple[list[str], list[str]]:
    """What a recorded provenance needs that this registry lacks, and what it has in another version.

    Returns:
        Two lists of clauses: what is missing, and what differs.
    """
    missing, other = [], []
    for part, origin in recorded["parts"].items():
        kind, name = part.split(".", 1)
        wanted = _origin(origin)
        try:
            entry = registry.entry(kind, name)
        except Exception as error:
            missing.append(f"{part} from {wanted} ({error})")
            continue
        found = {"plugin": entry.plugin, "distribution": entry.distribution, "version": entry.version}
        if found != origin:
            other.append(f"{part} was from {wanted} and is now from {_origin(found)}")
    return missing, other


def _origin(origin: Mapping[str, Any]) -> str:
    if origin["distribution"] is None:
        return f"plug-in {origin['plugin']}"
    return f"{origin['distribution']} {origin['version']} ({origin['plugin']})"
