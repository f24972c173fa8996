"""Descriptions of registered parts, for `peirce list`, `peirce describe` and the documentation's reference."""

from __future__ import annotations

import inspect
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

from peirce.registry import Registered, Registry, fields

_DECLARED = {
    "operators": ("typing", "letter", "scope_rule"),
    "positions": ("places",),
    "architectures": ("places", "branches", "layer", "state", "fixed_layer", "recurrent"),
    "heads": ("needs", "labels"),
}
"""What the parts of a kind declare of themselves."""


def identity(entry: Registered) -> dict[str, Any]:
    """A part's name, where it comes from, and what its kind declares, as plain values."""
    part = entry.part
    return {
        "kind": entry.kind,
        "name": entry.name,
        "plugin": entry.plugin,
        "distribution": entry.distribution,
        "version": entry.version,
        "class": f"{part.__module__}.{part.__qualname__}",
        **{key: _plain(getattr(part, key)) for key in _DECLARED.get(entry.kind, ())},
    }


def _plain(declared: Any) -> Any:
    found = declared() if callable(declared) else declared
    if isinstance(found, Set):
        return sorted(found)
    return list(found) if isinstance(found, tuple) else found


def description(entry: Registered, registry: Registry) -> dict[str, Any]:
    """The whole description of a part, as plain values: `identity`, documentation, options, dims and tensors."""
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


class Fact(NamedTuple):
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
    failures = described["expected_failures"].items()
    return found + [Fact("known to fail", f"{check}: {reason}") for check, reason in failures]


class FactTable(NamedTuple):
    """Rows under headings; `code` says which columns are to be read as code."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    code: Sequence[bool]


def tables(described: dict[str, Any]) -> list[FactTable]:
    """The options, dims and tensors of a description; those without rows are left out."""
    found = []
    for key in ("options", "dims"):
        rows = [
            (o["name"], o["type"], "required" if o["required"] else repr(o["default"]), o["meaning"])
            for o in described.get(key, ())
        ]
        headings = (key.removesuffix("s"), "type", "default", "meaning")
        found.append(FactTable(headings, rows, (True, True, True, False)))
    shapes = [tuple(tensor.values()) for tensor in described["tensors"]]
    found.append(FactTable(("tensor", "shape", "notes"), shapes, (False, True, False)))
    return [table for table in found if table.rows]
