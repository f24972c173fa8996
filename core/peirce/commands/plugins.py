"""`peirce plugins`: list, switch, prefer, add and check. Only `list --load` and `check` import plug-ins."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from peirce.commands.show import Json, as_json, as_table, group
from peirce.errors import RegistryError, unknown
from peirce.registry import (
    KINDS,
    PREFERABLE,
    Plugin,
    Registry,
    RegistryFile,
    announced_by,
    canonical,
    edit_registry_file,
    find_registry_file,
    installed_plugins,
    is_module_name,
    known_names,
    named_modules,
    named_plugin,
)

app = group("List, switch, prefer, add and check plug-ins.")
_PluginName = Annotated[
    str, typer.Argument(metavar="PLUGIN", help="distribution:entry-point, or module:NAME.")
]
_LOADED = ("parts", "specs", "runtimes", "commands", "parsers", "failure")


@app.command("list")
def list_plugins(
    load: Annotated[
        bool, typer.Option("--load", help="Import the plug-ins and show what they register.")
    ] = False,
    json: Json = False,
) -> None:
    """List the plug-ins; with --load also what each registers, or why it cannot be loaded."""
    file = find_registry_file()
    registry = Registry.survey(file) if load else None
    rows = [_row(file, plugin, registry) for plugin in _all(file)]
    conflicts = list(registry.conflicts) if registry else []
    if json:
        as_json(
            "peirce.plugins.list/1",
            registry=file.where,
            found=file.origin,
            loaded=load,
            plugins=rows,
            conflicts=conflicts,
        )
    else:
        columns = ["plugin", "state", "version", "module", *(_LOADED if load else ())]
        as_table(["plug-in", *columns[1:]], ([_cell(row[column]) for column in columns] for row in rows))
        typer.echo(f"registry: {file.where} ({file.origin})")
        for conflict in conflicts:
            typer.secho(f"conflict: {conflict}", err=True, fg="red")
    if conflicts or any(row["state"] == "quarantined" for row in rows):
        raise typer.Exit(1)


@app.command()
def enable(plugin: _PluginName, json: Json = False) -> None:
    """Switch a plug-in on."""
    _switch(plugin, "on", json)


@app.command()
def disable(plugin: _PluginName, json: Json = False) -> None:
    """Switch a plug-in off."""
    _switch(plugin, "off", json)


@app.command()
def prefer(
    part: Annotated[
        str, typer.Argument(metavar="KIND.NAME", help="Such as operators.prod; or letters.LETTER.")
    ],
    plugin: _PluginName,
    json: Json = False,
) -> None:
    """Say which plug-in owns a name that several register."""
    kind, dot, name = part.partition(".")
    if not dot or not name or kind not in PREFERABLE:
        raise RegistryError(
            f"{part!r} is no KIND.NAME such as operators.prod; {unknown('kind', kind, PREFERABLE)}"
        )
    file = find_registry_file()
    owner = _known(plugin, file)
    _edit(file, lambda document: _table(document, "prefer").update({part: owner}), json, prefer={part: owner})


@app.command()
def add(
    module: Annotated[str, typer.Argument(metavar="MODULE", help="A module's full name.")], json: Json = False
) -> None:
    """Load a further module as a plug-in."""
    if not is_module_name(module):
        raise RegistryError(f"{module!r} is no module name; one looks like my_lab.ops")
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
    if target != file.path or not file.imports_modules:
        typer.echo(
            f"modules of a file that is merely found are not imported: run with `--registry {target}`, "
            f"or set PEIRCE_REGISTRY to it",
            err=True,
        )


@app.command()
def check(
    plugin: Annotated[
        str,
        typer.Argument(
            metavar="PLUGIN",
            help="distribution:entry-point, a distribution that has one plug-in, or a module's name.",
        ),
    ],
    json: Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on checks that could not run.")] = False,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Try more examples, and larger exports.")
    ] = False,
    tensorrt: Annotated[
        bool, typer.Option("--tensorrt", help="Let TensorRT parse and build every part, too.")
    ] = False,
    keyword: Annotated[
        str, typer.Option("--keyword", "-k", metavar="EXPRESSION", help="Run these checks and parts only.")
    ] = "",
    expect: Annotated[
        list[str] | None,
        typer.Option(metavar="CHECK[KIND.NAME]=REASON", help="A check that is known to fail; repeatable."),
    ] = None,
) -> None:
    """Import a plug-in and run the conformance suite over its parts."""
    from peirce.commands.plugin_check import run_suite, show

    wanted = _to_check(plugin)
    everything_off = RegistryFile(path=find_registry_file().path, default="off")
    registry = Registry.survey(everything_off, extra_plugins=[wanted.name])
    for broken in registry.quarantined:
        if json:
            as_json(
                "peirce.plugins.check/1", plugin=broken.plugin, passed=False, cause=broken.cause, checks={}
            )
        else:
            typer.secho(f"{broken.plugin} cannot be loaded: {broken.cause}", fg="red")
            typer.echo(broken.detail, nl=False)
        raise typer.Exit(1)
    result = run_suite(
        wanted.name,
        strict=strict,
        thorough=thorough,
        tensorrt=tensorrt,
        keyword=keyword,
        expected=expect or (),
    )
    if json:
        as_json(
            "peirce.plugins.check/1",
            plugin=wanted.name,
            passed=result.passed,
            checks=result.counts(),
            output=result.explained(),
        )
    else:
        show(result)
    if not result.passed:
        raise typer.Exit(1)


def _to_check(given: str) -> Plugin:
    """The plug-in that is meant; one of a module that there is not is most likely a slip in a plug-in's name."""
    plugin, _ = named_plugin(given)
    named = plugin.distribution is not None or given.startswith("module:")
    if not named and find_spec(plugin.module.partition(".")[0]) is None:
        raise RegistryError(
            f"{unknown('plug-in', given, known_names(installed_plugins()))}. There is no module of that name either"
        )
    return plugin


def _row(file: RegistryFile, plugin: Plugin, registry: Registry | None) -> dict[str, Any]:
    """What there is to say of a plug-in; without a registry, what can be said without importing it."""
    state = "on" if file.is_on(plugin.name) else "off"
    if plugin.name.startswith("module:") and not file.imports_modules:
        state = "not imported"
    row: dict[str, Any] = {
        "plugin": plugin.name,
        "state": state,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "module": plugin.module,
        **dict.fromkeys(_LOADED),
    }
    if registry is None:
        return row
    for broken in registry.quarantined:
        if broken.plugin == plugin.name:
            return row | {"state": "quarantined", "failure": broken.cause}
    if state != "on":
        return row

    def own(kind: str) -> dict[str, Any]:
        return {entry.name: entry.part for entry in registry.entries(kind) if entry.plugin == plugin.name}

    return row | {
        "parts": sum(len(own(kind)) for kind in KINDS),
        "specs": len(own("specs")),
        **{kind: own(kind) for kind in ("runtimes", "commands", "parsers")},
    }


def _cell(value: object) -> object:
    return ", ".join(value) if isinstance(value, dict) else value


def _all(file: RegistryFile) -> tuple[Plugin, ...]:
    return (*installed_plugins(), *named_modules(file))


def _known(given: str, file: RegistryFile) -> str:
    """The plug-in's name as registry.toml spells it."""
    name = canonical(given)
    plugins = _all(file)
    if name in (*(plugin.name for plugin in plugins), *file.plugins):
        return name
    if alone := announced_by(name, plugins):
        return alone.name
    raise RegistryError(unknown("plug-in", given, known_names(plugins)))


def _switch(given: str, state: str, json: bool) -> None:
    file = find_registry_file()
    plugin = _known(given, file)

    def change(document: Any) -> None:
        table = _table(document, "plugins")
        # A line that spells the distribution otherwise would contradict the new one.
        spelt = next((key for key in table if canonical(key) == plugin), plugin)
        table[spelt] = state

    _edit(file, change, json, plugins={plugin: state})


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
        as_json("peirce.plugins.edit/1", file=str(target), created=created, change=content, notes=notes or [])
        return target
    typer.echo(
        f"created {target}, since {file.where} ships with Peirce; it is in force in this folder and below"
        if created
        else f"edited {target}"
    )
    for note in notes or []:
        typer.echo(f"note: {note}")
    return target
