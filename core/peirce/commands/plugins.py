"""`peirce plugins`: list, switch, prefer and add. Only `list --load` imports plug-ins."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from peirce.commands.show import Json, print_json, print_table
from peirce.errors import RegistryError, unknown
from peirce.registry import (
    KINDS,
    VARIABLE,
    EntryPoint,
    Registry,
    RegistryFile,
    all_plugins,
    canonical,
    edit_registry_file,
    find_plugin,
    find_registry_file,
    is_module_name,
    preferable_kinds,
    unknown_plugin,
)

_PluginName = Annotated[
    str, typer.Argument(metavar="PLUGIN", help="distribution:entry-point, or module:NAME.")
]
_TABLES = ("runtimes", "commands")
_LOADED = ("parts", "specs", *_TABLES, "others", "failure")


def list_plugins(
    load: Annotated[
        bool, typer.Option("--load", help="Import the plug-ins and show what they register.")
    ] = False,
    json: Json = False,
) -> None:
    """List the plug-ins; with --load also what each registers, or why it cannot be loaded."""
    file = find_registry_file()
    registry = Registry.discover(file, strict=False) if load else None
    rows = [_row(file, plugin, registry) for plugin in all_plugins(file)]
    conflicts = registry.conflicts if registry else ()
    if json:
        more = {"registry": file.where, "found": file.origin, "loaded": load}
        print_json("peirce.plugins.list/1", **more, plugins=rows, conflicts=conflicts)
    else:
        columns = ["plugin", "state", "version", "module", *(_LOADED if load else ())]
        print_table(["plug-in", *columns[1:]], ([_cell(row[column]) for column in columns] for row in rows))
        typer.echo(f"registry: {file.where} ({file.origin})")
        for conflict in conflicts:
            typer.secho(f"conflict: {conflict}", err=True, fg="red")
    if conflicts or any(row["state"] == "quarantined" for row in rows):
        raise typer.Exit(1)


def _row(file: RegistryFile, plugin: EntryPoint, registry: Registry | None) -> dict[str, Any]:
    """The row of a plug-in; without a registry, what is known without importing it."""
    state = "on" if file.is_on(plugin.name) else "off"
    if plugin.distribution is None and not file.imports_modules:
        state = "not imported"
    found: dict[str, Any] = dict.fromkeys(_LOADED)
    if registry is None and plugin.fault and state == "on":
        state, found["failure"] = "quarantined", plugin.fault
    if registry is not None:
        failures = {broken.plugin: broken.cause for broken in registry.quarantined}
        if plugin.name in failures:
            state, found["failure"] = "quarantined", failures[plugin.name]
        elif state == "on":
            entries = [
                entry
                for kind in registry.kinds
                for entry in registry.entries(kind)
                if entry.plugin == plugin.name
            ]
            found["parts"] = sum(entry.kind in KINDS for entry in entries)
            found["specs"] = sum(entry.kind == "specs" for entry in entries)
            found |= {kind: {e.name: e.part for e in entries if e.kind == kind} for kind in _TABLES}
            others = [e for e in entries if e.kind not in {*KINDS, "specs", *_TABLES}]
            kinds = dict.fromkeys(e.kind for e in others)
            found["others"] = {kind: sorted(e.name for e in others if e.kind == kind) for kind in kinds}
    return {
        "plugin": plugin.name,
        "state": state,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "module": plugin.target,
        **found,
    }


def _cell(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{name}: {len(e)}" if isinstance(e, list) else name for name, e in value.items())


def enable(plugin: _PluginName, json: Json = False) -> None:
    """Switch a plug-in on."""
    _switch(plugin, "on", json)


def disable(plugin: _PluginName, json: Json = False) -> None:
    """Switch a plug-in off."""
    _switch(plugin, "off", json)


def _switch(given: str, state: str, json: bool) -> None:
    file = find_registry_file()
    plugin = _plugin_name(given, file)

    def change(document: Any) -> None:
        table = _table(document, "plugins")
        # A line that spells the distribution otherwise would contradict the new one.
        spelt = next((key for key in table if canonical(key) == plugin), plugin)
        table[spelt] = state

    target = _edit(file, change, json, plugins={plugin: state})
    if state == "on" and plugin.startswith("module:"):
        _echo_next_step(file, target)


def prefer(
    part: Annotated[
        str, typer.Argument(metavar="KIND.NAME", help="Such as operators.prod; or letters.LETTER.")
    ],
    plugin: _PluginName,
    json: Json = False,
) -> None:
    """Say which plug-in owns a name that several register."""
    kind, _, name = part.partition(".")
    if not name or kind not in preferable_kinds():
        raise RegistryError(
            f"{part!r} is not a KIND.NAME such as operators.prod; {unknown('kind', kind, preferable_kinds())}"
        )
    file = find_registry_file()
    change = {part: _plugin_name(plugin, file)}
    _edit(file, lambda document: _table(document, "prefer").update(change), json, prefer=change)


def add(
    module: Annotated[str, typer.Argument(metavar="MODULE", help="A module's full name.")], json: Json = False
) -> None:
    """Load a further module as a plug-in."""
    if not is_module_name(module):
        raise RegistryError(f"{module!r} is not the name of a module, such as my_lab.ops")
    file = find_registry_file()

    def change(document: Any) -> None:
        modules = document.setdefault("modules", [])
        if module not in modules:
            modules.append(module)

    # Only the top package is looked for, because looking for a module inside it would import it.
    top, notes = module.partition(".")[0], []
    if find_spec(top) is None:
        notes.append(f"no module {top!r} is on the import path now; set PYTHONPATH or install it")
    target = _edit(file, change, json, notes, modules=[module])
    _echo_next_step(file, target)


def _plugin_name(given: str, file: RegistryFile) -> str:
    """The plug-in's name as registry.toml spells it."""
    name, plugins = canonical(given), all_plugins(file)
    if name in file.plugins:
        return name
    if found := find_plugin(given, plugins):
        return found.name
    raise unknown_plugin(given, plugins)


def _echo_next_step(file: RegistryFile, target: Path) -> None:
    """Say what to do so that the modules of an edited file are imported, if the file was not named."""
    if target != file.path or not file.imports_modules:
        typer.echo(
            f"next: export {VARIABLE}={target}    # or `peirce --registry {target} ...`: modules of a file that is "
            "found by the search are not imported",
            err=True,
        )


def _table(document: Any, name: str) -> Any:
    import tomlkit

    return document.setdefault(name, tomlkit.table())


def _edit(
    file: RegistryFile,
    change: Callable[[Any], None],
    json: bool,
    notes: list[str] | None = None,
    **content: Any,
) -> Path:
    existed = (Path.cwd() / "registry.toml").exists()
    target = edit_registry_file(file, change)
    created = target != file.path and not existed
    if json:
        print_json(
            "peirce.plugins.edit/1", file=str(target), created=created, change=content, notes=notes or []
        )
        return target
    if created:
        typer.echo(
            f"created {target}, since {file.where} ships with Peirce; it is in force in this folder and below"
        )
    else:
        typer.echo(f"edited {target}")
    for note in notes or []:
        typer.echo(f"note: {note}")
    return target
