"""What there is to say of a registered part, for `peirce list`, `peirce describe` and the documentation's reference."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from peirce.registry import Registered, Registry, fields


def identity(entry: Registered) -> dict[str, Any]:
    """A part's name, where it comes from, and what its kind declares, as plain values."""
    part = entry.part
    found: dict[str, Any] = {
        "kind": entry.kind,
        "name": entry.name,
        "plugin": entry.plugin,
        "distribution": entry.distribution,
        "version": entry.version,
        "class": f"{part.__module__}.{part.__qualname__}",
    }
    if entry.kind == "operators":
        found |= {"typing": part.typing, "letter": part.letter, "scope_rule": part.scope_rule}
    if entry.kind == "positions":
        found["places"] = list(part.places())
    if entry.kind == "architectures":
        found |= {
            "places": sorted(part.places),
            "branches": part.branches,
            "layer": part.layer,
            "state": list(part.state),
            "fixed_layer": part.fixed_layer,
            "recurrent": part.recurrent,
        }
    if entry.kind == "heads":
        found |= {"needs": sorted(part.needs), "labels": part.labels}
    return found


def description(entry: Registered, registry: Registry) -> dict[str, Any]:
    """All of a part, as plain values: `identity`, its documentation, options, dims and tensors."""
    from peirce.commands.shapes import shapes

    part = entry.part
    found = identity(entry) | {
        "api": part.api,
        "source": part.source,
        "documentation": inspect.cleandoc(part.__doc__ or ""),
        "example": dict(part.example),
        "options": fields(part.Options),
        "expected_failures": dict(part.expected_failures),
    }
    if entry.kind == "architectures":
        found["dims"] = fields(part.Dims)
    return found | {"tensors": shapes(entry.kind, part, registry)}


@frozen
class Fact:
    """Something about a part in one line; `code` where the value is to be read as code."""

    label: str
    value: str
    code: bool = False


_FACTS = {
    "typing": ("typing", True),
    "letter": ("letter", True),
    "scope_rule": ("mask contract", True),
    "places": ("places", False),
    "branches": ("branches", True),
    "layer": ("default layer", True),
    "state": ("state operators", True),
    "needs": ("needs", False),
    "labels": ("labels", False),
    "source": ("source", False),
    "class": ("class", True),
    "api": ("api", False),
}
"""What each value of a description is called, and whether it is code."""


def facts(described: dict[str, Any]) -> list[Fact]:
    """The one-line facts of a description; those that are empty are left out."""
    found = []
    for key, (label, code) in _FACTS.items():
        value = described.get(key)
        if value not in (None, "", []):
            found.append(Fact(label, ", ".join(value) if isinstance(value, list) else str(value), code))
    if described["example"]:
        settings = ", ".join(f"{name} = {value!r}" for name, value in described["example"].items())
        found.append(Fact("example", settings, code=True))
    for check, reason in described["expected_failures"].items():
        found.append(Fact("known to fail", f"{check}: {reason}"))
    return found


@frozen
class FactTable:
    """Rows under headings; `code` says which columns are to be read as code."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    code: tuple[bool, ...]


def tables(described: dict[str, Any]) -> list[FactTable]:
    """The options, dims and tensors of a description; those without rows are left out."""
    found = [
        FactTable(
            (what, "type", "default", "meaning"),
            tuple((o["name"], o["type"], _default(o), o["meaning"]) for o in described.get(key, ())),
            (True, True, True, False),
        )
        for key, what in (("options", "option"), ("dims", "dim"))
    ]
    tensors: Sequence[dict[str, str]] = described["tensors"]
    rows = tuple((tensor["name"], tensor["shape"], tensor["notes"]) for tensor in tensors)
    found.append(FactTable(("tensor", "shape", "notes"), rows, (False, True, False)))
    return [table for table in found if table.rows]


def _default(option: dict[str, Any]) -> str:
    return "required" if option["required"] else repr(option["default"])
