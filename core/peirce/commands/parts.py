"""`peirce list` and `peirce describe`: which parts there are, and what each of them is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peirce.commands.description import description, facts, identity, tables
from peirce.commands.show import Json, console, print_json, print_table
from peirce.errors import RegistryError, unknown
from peirce.registry import KINDS, Registered, Registry, default_registry, drawer_of, first_line


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
    aliases = {f"{one}.{alias}": name for one in kinds for alias, name in registry.aliases(one).items()}
    if json:
        print_json(
            "peirce.list/1",
            parts=[identity(entry) | {"summary": first_line(entry.part)} for entry in entries],
            aliases=aliases,
            letters=registry.letters,
            quarantined=[{"plugin": broken.plugin, "cause": broken.cause} for broken in registry.quarantined],
        )
        return
    rows = ([e.kind, e.name, _typing_or_places(e), first_line(e.part), e.plugin, e.version] for e in entries)
    print_table(("kind", "name", "typing or places", "summary", "plug-in", "version"), rows)
    for alias, name in aliases.items():
        typer.echo(f"alias: {alias} = {name}")


def describe(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A part's name, or KIND.NAME.")],
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", help="Draw an operator's cells to a .svg or .png file."),
    ] = None,
    json: Json = False,
) -> None:
    """Describe a part: typing, options and defaults, tensor shapes, source, plug-in and version."""
    registry = default_registry()
    entries = _find(registry, name)
    if picture is not None:
        drawn = next((entry for entry in entries if entry.kind == "operators"), entries[0])
        drawer_of(drawn.kind)(drawn.part, picture)
    described = [description(entry, registry) for entry in entries]
    if json:
        print_json("peirce.describe/1", parts=described)
        return
    output = console()
    for part in described:
        version = f" {part['version']}" if part["version"] else ""
        output.print(part["name"], style="bold", end="")
        output.print(f"  {part['kind'].removesuffix('s')} of {part['plugin']}{version}", markup=False)
        if part["documentation"]:
            output.print(part["documentation"], markup=False)
        output.print()
        for fact in facts(part):
            output.print(f"{fact.label:>15}: {fact.value}", markup=False)
        for table in tables(part):
            print_table(table.headings, table.rows)


def _find(registry: Registry, name: str) -> list[Registered]:
    kind, dot, rest = name.partition(".")
    if dot:
        return [registry.entry(kind, rest)]
    kinds = [each for each in KINDS if name in (*registry.names(each), *registry.aliases(each))]
    if not kinds:  # the registry's error for a part of a broken plug-in says why it is missing
        kinds = [each for broken in registry.quarantined for each, its in broken.parts if its == name]
    if kinds:
        return [registry.entry(each, name) for each in kinds]
    known = [entry.name for each in KINDS for entry in registry.entries(each)]
    broken_too = "".join(f". Quarantined: {one.plugin} ({one.cause})" for one in registry.quarantined)
    raise RegistryError(unknown("part", name, known) + "; `peirce list` lists all" + broken_too)


def _typing_or_places(entry: Registered) -> str:
    if entry.kind == "operators":
        return entry.part.typing + (f" ({entry.part.letter})" if entry.part.letter else "")
    return ", ".join(entry.part.places()) if entry.kind == "positions" else ""
