"""`peirce list` and `peirce describe`: which parts there are, and what each of them is."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

import attrs
import typer

from peirce.commands.show import Json, as_json, as_table, console
from peirce.docstrings import arguments, first_line
from peirce.errors import RegistryError, unknown
from peirce.registry import KINDS, Registered, Registry, default_registry


def list_parts(
    kind: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(KINDS)}; all of them if absent.")
    ] = None,
    json: Json = False,
) -> None:
    """List the registered parts, each with its plug-in and version."""
    if kind is not None and kind not in KINDS:
        raise RegistryError(unknown("part kind", kind, KINDS))
    registry = default_registry()
    kinds = KINDS if kind is None else (kind,)
    entries = [entry for one in kinds for entry in registry.entries(one)]
    if json:
        as_json(
            "peirce.list/1",
            parts=[_identity(entry) | {"summary": first_line(entry.part)} for entry in entries],
            aliases={
                f"{one}.{alias}": name for one in kinds for alias, name in registry.aliases(one).items()
            },
            letters=dict(registry.letters),
            quarantined=[{"plugin": broken.plugin, "cause": broken.cause} for broken in registry.quarantined],
        )
        return
    as_table(
        ("kind", "name", "typing or places", "summary", "plug-in", "version"),
        (
            [entry.kind, entry.name, _gist(entry), first_line(entry.part), entry.plugin, entry.version]
            for entry in entries
        ),
    )
    for one in kinds:
        for alias, name in registry.aliases(one).items():
            typer.echo(f"alias: {one}.{alias} = {name}")


def describe(
    name: Annotated[str, typer.Argument(help="A part's name, or KIND.NAME.")],
    json: Json = False,
) -> None:
    """Describe a part: typing, options and defaults, tensor shapes, source, plug-in and version."""
    described = [_describe(entry) for entry in _find(default_registry(), name)]
    if json:
        as_json("peirce.describe/1", parts=described)
        return
    for part in described:
        _print(part)


def _find(registry: Registry, name: str) -> list[Registered]:
    kind, dot, rest = name.partition(".")
    if dot:
        return [registry.entry(kind, rest)]
    found = [
        registry.entry(kind, name)
        for kind in KINDS
        if name in registry.names(kind) or name in registry.aliases(kind)
    ]
    if not found:
        for broken in registry.quarantined:
            for kind, its_name in broken.parts:
                if its_name == name:
                    registry.entry(kind, name)
        known = [entry.name for kind in KINDS for entry in registry.entries(kind)]
        broken_too = "".join(f". Quarantined: {one.plugin} ({one.cause})" for one in registry.quarantined)
        raise RegistryError(unknown("part", name, known) + broken_too)
    return found


def _identity(entry: Registered) -> dict[str, Any]:
    identity: dict[str, Any] = {
        "kind": entry.kind,
        "name": entry.name,
        "plugin": entry.plugin,
        "distribution": entry.distribution,
        "version": entry.version,
        "class": f"{entry.part.__module__}.{entry.part.__qualname__}",
    }
    if entry.kind == "operators":
        identity |= {
            "typing": entry.part.typing,
            "letter": entry.part.letter,
            "scope_rule": entry.part.scope_rule,
        }
    if entry.kind == "positions":
        identity["places"] = list(entry.part.places())
    if entry.kind == "architectures":
        identity |= {
            "places": sorted(entry.part.places),
            "branches": entry.part.branches,
            "layer": entry.part.layer,
            "state": list(entry.part.state),
            "fixed_layer": entry.part.fixed_layer,
        }
    if entry.kind == "heads":
        identity["needs"] = sorted(entry.part.needs)
    return identity


def _describe(entry: Registered) -> dict[str, Any]:
    from peirce.commands.shapes import shapes

    part = entry.part
    description = _identity(entry) | {
        "api": part.api,
        "source": part.source,
        "documentation": inspect.getdoc(part) or "",
        "options": fields(part.Options),
        "expected_failures": dict(part.expected_failures),
    }
    if entry.kind == "architectures":
        description["dims"] = fields(part.Dims)
    return description | {"tensors": shapes(entry.kind, part)}


def fields(options: type[Any]) -> list[dict[str, Any]]:
    """Name, type, default and meaning of each field of an attrs class; a required one has no default."""
    listed, meanings = [], arguments(options)
    # A type that only the type checker can see stays as it is written.
    with suppress(NameError, TypeError):
        attrs.resolve_types(options)
    for field in attrs.fields(options):
        if not field.init:
            continue
        described = {
            "name": field.alias or field.name,
            "type": _type_name(field.type),
            "meaning": meanings.get(field.name, ""),
        }
        default = field.default
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
            default = None if default.takes_self else default.factory()
        if field.default is attrs.NOTHING:
            described["required"] = True
        else:
            described |= {
                "required": False,
                "default": attrs.asdict(default) if attrs.has(type(default)) else default,
            }
        listed.append(described)
    return listed


def _type_name(annotation: object) -> str:
    if isinstance(annotation, type) and annotation.__module__ == "builtins" and "[" not in str(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "").replace("collections.abc.", "")


def _gist(entry: Registered) -> str:
    if entry.kind == "operators":
        letter = f" ({entry.part.letter})" if entry.part.letter else ""
        return f"{entry.part.typing}{letter}"
    if entry.kind == "positions":
        return ", ".join(entry.part.places())
    return ""


def _print(part: Mapping[str, Any]) -> None:
    show = console()
    version = f" {part['version']}" if part["version"] else ""
    show.print(f"{part['name']}", style="bold", end="")
    show.print(f"  {part['kind'].removesuffix('s')} of {part['plugin']}{version}", markup=False)
    if part["documentation"]:
        show.print(part["documentation"], markup=False)
    show.print()
    shown = (
        "typing",
        "letter",
        "scope_rule",
        "places",
        "branches",
        "layer",
        "state",
        "needs",
        "source",
        "class",
        "api",
    )
    for key in shown:
        value = part.get(key)
        if value not in (None, "", []):
            value = ", ".join(value) if isinstance(value, list) else value
            show.print(f"{key.replace('_', ' '):>12}: {value}", markup=False)
    for check, reason in part["expected_failures"].items():
        show.print(f"{'known to fail':>12}: {check}: {reason}", markup=False)
    for title in ("options", "dims"):
        rows = [
            (o["name"], o["type"], "required" if o["required"] else repr(o["default"]), o["meaning"])
            for o in part.get(title, ())
        ]
        if rows:
            as_table((title.removesuffix("s"), "type", "default", "meaning"), rows)
    if part["tensors"]:
        as_table(("tensor", "shape", "notes"), ((t["name"], t["shape"], t["notes"]) for t in part["tensors"]))
