"""Running one command. What a plug-in does wrong, in a command of its own or in a part, is told as its failure."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import typer
from attrs import frozen

from peirce.errors import PeirceError, PluginError, RegistryError, lacks_memory
from peirce.files import disk_error
from peirce.registry import (
    Announced,
    ForeignError,
    Plugin,
    RegistryFile,
    find_registry_file,
    in_a_line,
    installed_plugins,
    output_aside,
    run_foreign,
    shared_packages,
    signals,
    switched_off,
)

Misuse: type[Exception] = typer.BadParameter.__mro__[2]
"""What says that a command is used wrongly: click's ClickException."""
_SPOKEN = (typer.Exit, typer.Abort, Misuse)
"""What a command raises to end, or to say that it is used wrongly."""


@frozen(kw_only=True)
class Command:
    """A command that has not been imported.

    Args:
        name: what the user types; `import.folnet` is the command `folnet` of the group `import`.
        help: one line.
        target: `module:attribute`, for a command of the core.
        entries: every distribution's entry point of that name; more than one that is on is an error when it runs.
    """

    name: str
    help: str
    target: str = ""
    entries: tuple[Announced, ...] = ()

    @property
    def words(self) -> str:
        """The name as it is typed."""
        return self.name.replace(".", " ")

    def on(self, file: RegistryFile, installed: Iterable[Plugin]) -> tuple[Announced, ...]:
        """The entry points of which no plug-in is switched off.

        Args:
            file: the registry.toml in force.
            installed: every plug-in that is installed.
        """
        return tuple(entry for entry in self.entries if not switched_off(entry, file, installed))


def loaded_command(command: Command) -> Any:
    """What runs a command, with its module imported.

    Raises:
        RegistryError: several distributions announce it, its plug-in is switched off, or it needs a module that is not
            installed.
        PluginError: it cannot be imported, or is no command.
    """
    entry = _entry(command) if command.entries else None
    target = command.target if entry is None else entry.target
    try:
        return run_foreign(partial(_runner, target))
    except ForeignError as failed:
        error = failed.__cause__ or failed
    if isinstance(error, ModuleNotFoundError):
        foreign = entry is not None and not _is_ours(entry)
        remedy = (
            "install it"
            if foreign
            else "`pip install 'peirce[all]'` installs what the commands of peirce need"
        )
        owner = "peirce" if entry is None else entry.distribution
        raise RegistryError(
            f"command {command.words!r} of {owner} needs the module {error.name!r}, which is not installed; {remedy}"
        ) from error
    if entry is None or _is_ours(entry) or isinstance(error, PeirceError):
        raise error
    raise _failure(command, entry, in_a_line(error)) from error


def run_command(command: Command, runner: Any, arguments: Sequence[str]) -> None:
    """Run a command that is loaded.

    Args:
        command: the command.
        runner: what `loaded_command` gave.
        arguments: what the user typed after its name.

    Raises:
        PluginError: the command, if it is a plug-in's, failed or returned something; or a part of a plug-in failed.
    """
    foreign = next((entry for entry in command.entries if not _is_ours(entry)), None)
    # Of a command that is not a plug-in's own, only the document goes to standard output, whatever its parts print.
    aside = output_aside() if foreign is None and "--json" in arguments else nullcontext()
    with signals() as came, aside:
        try:
            with runner.make_context(f"peirce {command.words}", list(arguments)) as context:
                returned = runner.invoke(context)
        except BaseException as error:
            failure = None if came() else _why(command, foreign, error)
            if failure is None:
                raise
            raise failure from error
    if foreign is not None and returned is not None:
        if inspect.iscoroutine(returned):
            returned.close()  # nobody awaits it, of which Python would warn
        raise PluginError(
            f"{_called(command, foreign)} returned {_shown(returned)}; a command returns nothing, and ends with "
            "another exit code by `raise typer.Exit(1)`"
        )


def _entry(command: Command) -> Announced:
    """The one entry point of a command that is on."""
    file, installed = find_registry_file(), installed_plugins()
    on = command.on(file, installed)
    if len(on) > 1:
        raise RegistryError(
            f"command {command.words!r} is announced by {' and '.join(entry.distribution for entry in on)}; uninstall "
            "all but one, or switch their plug-ins off with `peirce plugins disable PLUGIN`"
        )
    if not on:
        off = switched_off(command.entries[0], file, installed)
        raise RegistryError(
            f"command {command.words!r} belongs to {' and '.join(off)}, which is switched off; "
            f"`peirce plugins enable {off[0]}` switches it on"
        )
    return on[0]


def _runner(target: str) -> Any:
    """The typer command of a `module:attribute`."""
    module, _, attribute = target.partition(":")
    found = attrgetter(attribute)(import_module(module)) if attribute else None
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    if not callable(found):
        what = f"is {_shown(found)}" if attribute else "names a module alone"
        raise TypeError(f"{target} {what}, which is no function and no typer application")
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(help=None)(found)
    return typer.main.get_command(app)


def _is_ours(entry: Announced) -> bool:
    return entry.distribution == "peirce"


def _why(command: Command, foreign: Announced | None, error: BaseException) -> PluginError | None:
    """The failure of a plug-in that an exception is; None for one that goes on as it is."""
    if isinstance(error, PeirceError | BrokenPipeError) or (
        isinstance(error, Exception) and (disk_error(error) is not None or lacks_memory(error))
    ):
        return None
    found = next(_frames_of_plugins(error), None)
    if foreign is not None:
        return (
            None if isinstance(error, _SPOKEN) else _failure(command, foreign, in_a_line(error) + _at(found))
        )
    if found is None:
        return None
    return PluginError(
        f"plug-in {found.plugin} failed in `peirce {command.words}`: {in_a_line(error)}{_at(found)}; "
        f"`peirce plugins disable {found.plugin}` switches it off. {_MORE}"
    )


_MORE = "PEIRCE_TRACEBACK=1 shows the traceback"


def _failure(command: Command, entry: Announced, said: str) -> PluginError:
    """The failure of a plug-in's command."""
    return PluginError(f"{_called(command, entry)} failed: {said}. {_MORE}")


def _called(command: Command, entry: Announced) -> str:
    version = f" {entry.version}" if entry.version else ""
    return f"command {command.words!r} ({entry.target}) of {entry.distribution}{version}"


@frozen
class _Frame:
    """A call of a plug-in's function: the plug-in's name, and where in its code."""

    plugin: str
    file: str
    line: int
    function: str


def _at(frame: _Frame | None) -> str:
    return f" (in {frame.function}, {Path(frame.file).name} line {frame.line})" if frame is not None else ""


def _frames_of_plugins(error: BaseException) -> Iterator[_Frame]:
    """The calls of plug-ins' functions that an exception came through, the innermost first."""
    owners = _owners()
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        module = str(frame.f_globals.get("__name__", ""))
        nearest = max(owners, key=partial(shared_packages, module), default="")
        if shared_packages(module, nearest):
            yield _Frame(owners[nearest], frame.f_code.co_filename, line, frame.f_code.co_qualname)


def _owners() -> dict[str, str]:
    """The names of the plug-ins that do not ship with Peirce, by their modules and those of their parts."""
    from peirce.registry import KINDS, default_registry  # not for `peirce --help`, which loads no plug-in

    found: dict[str, str] = {}
    try:
        modules = find_registry_file().modules
        if default_registry.cache_info().currsize:
            registry = default_registry()
            parts = [entry for kind in KINDS for entry in registry.entries(kind)]
            found |= {
                entry.part.__module__: entry.plugin for entry in parts if entry.distribution != "peirce"
            }
    except PeirceError:
        modules = ()
    found |= {name: f"module:{name}" for name in modules}
    found |= {plugin.module: plugin.name for plugin in installed_plugins() if plugin.distribution != "peirce"}
    return found


def _shown(value: object) -> str:
    """A value in a few words; even one that cannot be printed."""
    try:
        said = repr(value)
    except BaseException:
        said = f"a {type(value).__name__}"
    return said if len(said) <= 100 else f"{said[:100]} ..."
