"""Where the parts of a model come from, and what differs where it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from peirce.errors import ModelFileError

if TYPE_CHECKING:
    from peirce.parts import Plan
    from peirce.registry import Registry

FORMAT = 1
"""The newest format of provenance.json that this version reads, and the one that it writes."""


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
        "format": FORMAT,
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


def check_format(recorded: Mapping[str, Any], source: str) -> None:
    """Refuse a provenance that this version cannot read.

    Raises:
        ModelFileError: it is no provenance, or its format is newer than this version reads.
    """
    found = recorded.get("format")
    if not isinstance(found, int) or not isinstance(recorded.get("parts"), dict):
        raise ModelFileError(f"{source} is not the provenance of a Peirce model: it has no format and parts")
    if found > FORMAT:
        raise ModelFileError(
            f"{source} has format {found}, newer than {FORMAT}, the newest that this version of Peirce reads; it was "
            f"written by peirce {recorded.get('peirce', '?')}: upgrade peirce"
        )
    if not all(_is_origin(part, origin) for part, origin in recorded["parts"].items()):
        raise ModelFileError(
            f"{source} is damaged: each of its parts must be KIND.NAME with a plugin, a distribution and a version; "
            "restore it from where the model was saved"
        )


def _is_origin(part: str, origin: Any) -> bool:
    return "." in part and isinstance(origin, dict) and {"plugin", "distribution", "version"} <= origin.keys()


def _origin(origin: Mapping[str, Any]) -> str:
    if origin["distribution"] is None:
        return f"plug-in {origin['plugin']}"
    return f"{origin['distribution']} {origin['version']} ({origin['plugin']})"
