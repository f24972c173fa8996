"""Which plug-ins there are, from the entry points of installed distributions; nothing here imports one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from functools import cache
from types import ModuleType

from attrs import evolve

from peirce.errors import RegistryError, unknown
from peirce.registry.entry_points import EntryPoint, announcements, canonical
from peirce.registry.file import RegistryFile
from peirce.registry.importing import foreign_file

_log = logging.getLogger("peirce")


Wanted = tuple[EntryPoint, object]
"""A plug-in, and its module; None where it is to be imported."""


@cache
def _warn_of_modules(where: str, modules: str) -> None:
    _log.warning(
        "%s was found by the search, so its modules are not imported: %s; `peirce --registry %s` imports them",
        *(where, modules, where),
    )


def installed_plugins() -> tuple[EntryPoint, ...]:
    """Every plug-in that an installed distribution announces, sorted."""
    found = announcements("peirce.plugins")
    named = (evolve(entry, name=f"{entry.distribution}:{entry.name}") for entry in found)
    return tuple(sorted(named, key=lambda plugin: plugin.name))


def all_plugins(file: RegistryFile) -> tuple[EntryPoint, ...]:
    """Every plug-in that is installed, and those that registry.toml names as modules."""
    named = (EntryPoint(name=f"module:{name}", target=name) for name in file.modules)
    return (*installed_plugins(), *named)


def active_plugins(
    file: RegistryFile, extra: Iterable[str | object] = ()
) -> tuple[tuple[Wanted, ...], tuple[str, ...]]:
    """The plug-ins to load, and the names of those that are installed but switched off.

    Args:
        file: the registry file, which switches plug-ins on and off and names further modules.
        extra: plug-ins to load whatever the file says, as for `named_plugin`.

    Raises:
        RegistryError: an extra plug-in is not installed.
    """
    plugins = all_plugins(file)
    given = (named_plugin(one, plugins) for one in extra)
    wanted = {plugin.name: (plugin, module) for plugin, module in given}
    for plugin in plugins:
        if file.is_on(plugin.name):
            wanted.setdefault(plugin.name, (plugin, None))
    if file.modules and not file.imports_modules:
        _warn_of_modules(file.where, ", ".join(file.modules))
    return tuple(wanted.values()), tuple(each.name for each in plugins if each.name not in wanted)


def named_plugin(given: str | object, plugins: Iterable[EntryPoint]) -> Wanted:
    """The plug-in that a caller names: an installed one where there is one, so that its parts have a provenance.

    Args:
        given: a module or an object with hooks, or what `find_plugin` takes, or a module's name.
        plugins: the plug-ins to look among.

    Raises:
        RegistryError: no plug-in has the name, or several have it.
    """
    if isinstance(given, str):
        if found := find_plugin(given, plugins):
            return found, None
        name = given.removeprefix("module:")
        if name == given and not is_module_name(name):
            raise unknown_plugin(given, plugins)
        return EntryPoint(name=f"module:{name}", target=name), None
    if isinstance(given, ModuleType):
        name = given.__name__
        found = next((plugin for plugin in plugins if plugin.target == name), None)
        if found is not None and foreign_file(found, given) is None:
            return found, given
    else:
        kind = given if isinstance(given, type) else type(given)
        name = f"{kind.__module__}.{kind.__qualname__}" + ("" if kind is given else f".{id(given):x}")
    return EntryPoint(name=f"module:{name}", target=name, version=getattr(given, "__version__", None)), given


def find_plugin(given: str, plugins: Iterable[EntryPoint]) -> EntryPoint | None:
    """The plug-in that a user names by `distribution:entry-point`, its module, or its distribution, else None.

    Raises:
        RegistryError: the distribution announces several.
    """
    name, plugins = canonical(given), tuple(plugins)
    for plugin in plugins:
        if plugin.name == name or plugin.target == given:
            return plugin
    announced = [plugin for plugin in plugins if plugin.distribution == name]
    if len(announced) > 1:
        names = ", ".join(plugin.name for plugin in announced)
        raise RegistryError(f"{given!r} announces {len(announced)} plug-ins: {names}; name one of them")
    return announced[0] if announced else None


def unknown_plugin(given: str, plugins: Iterable[EntryPoint], more: str = "") -> RegistryError:
    """The error for a name that no plug-in has; it lists the plug-ins, and the distributions with exactly one."""
    plugins = tuple(plugins)
    counts = Counter(plugin.distribution for plugin in plugins)
    alone = (name for name, count in counts.items() if name is not None and count == 1)
    return RegistryError(unknown("plug-in", given, (*alone, *(plugin.name for plugin in plugins))) + more)


def is_module_name(name: str) -> bool:
    """Whether a text may be the full name of a module."""
    return all(map(str.isidentifier, name.split(".")))


def disabled_plugins(
    entry: EntryPoint, file: RegistryFile, installed: Iterable[EntryPoint]
) -> tuple[str, ...]:
    """The plug-ins that an entry point such as a command belongs to, if all of them are switched off; else none.

    It belongs to the plug-ins of its distribution in the same top package, or else to all plug-ins of its distribution.
    Entry points of the core belong to no plug-in.
    """
    announced = [plugin for plugin in installed if plugin.distribution == entry.distribution]
    near = [plugin for plugin in announced if plugin.top == entry.top]
    names = [plugin.name for plugin in near or (() if entry.top == "peirce" else announced)]
    return () if any(map(file.is_on, names)) else tuple(names)


def disabled_error(what: str, plugins: tuple[str, ...]) -> RegistryError:
    """The error for something, such as `command 'greet'`, whose plug-ins are switched off."""
    return RegistryError(
        f"{what} belongs to {' and '.join(plugins)}, which is switched off; `peirce plugins enable {plugins[0]}` "
        "switches it on"
    )
