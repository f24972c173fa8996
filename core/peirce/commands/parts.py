"""`peirce list` and `peirce describe`: which parts there are, and what each of them is."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from peirce.commands.description import description, facts, identity, tables
from peirce.commands.show import Json, as_json, as_table, console
from peirce.errors import RegistryError, unknown
from peirce.registry import KINDS, Registered, Registry, default_registry, first_line


def list_parts(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}; all of them if absent.")
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
            parts=[identity(entry) | {"summary": first_line(entry.part)} for entry in entries],
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
    name: Annotated[str, typer.Argument(metavar="NAME", help="A part's name, or KIND.NAME.")],
    json: Json = False,
) -> None:
    """Describe a part: typing, options and defaults, tensor shapes, source, plug-in and version."""
    registry = default_registry()
    described = [description(entry, registry) for entry in _find(registry, name)]
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


def _gist(entry: Registered) -> str:
    if entry.kind == "operators":
        letter = f" ({entry.part.letter})" if entry.part.letter else ""
        return f"{entry.part.typing}{letter}"
    if entry.kind == "positions":
        return ", ".join(entry.part.places())
    return ""


def _print(part: dict[str, Any]) -> None:
    show = console()
    version = f" {part['version']}" if part["version"] else ""
    show.print(f"{part['name']}", style="bold", end="")
    show.print(f"  {part['kind'].removesuffix('s')} of {part['plugin']}{version}", markup=False)
    if part["documentation"]:
        show.print(part["documentation"], markup=False)
    show.print()
    for fact in facts(part):
        show.print(f"{fact.label:>15}: {fact.value}", markup=False)
    for table in tables(part):
        as_table(table.headings, table.rows)
