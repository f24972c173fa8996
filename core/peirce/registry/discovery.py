"""Which plug-ins there are, from the entry points of installed distributions; nothing here imports one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.metadata import distributions
from types import ModuleType
from typing import Any

from attrs import frozen

from peirce.errors import RegistryError, one_line, unknown
from peirce.registry.file import RegistryFile, canonical

_log = logging.getLogger("peirce")


@frozen(kw_only=True)
class Plugin:
    """A plug-in that is installed or named, loaded or not.

    Args:
        name: `distribution:entry-point`, or `module:NAME`.
        module: the module that it is.
        distribution: the distribution that announces it; None for a module that is only named.
        version: the distribution's version.
    """

    name: str
    module: str
    distribution: str | None = None
    version: str | None = None


Wanted = tuple[Plugin, object]
"""A plug-in, and its module; None where it is to be imported."""


@frozen(kw_only=True)
class Announced:
    """One entry point.

    Args:
        name: what it is called.
        target: `module`, or `module:attribute`.
        distribution: the distribution's name, as package indexes spell it.
        version: the distribution's version.
        summary: what its metadata say of it in a line; may be empty.
    """

    name: str
    target: str
    distribution: str
    version: str | None
    summary: str

    @property
    def module(self) -> str:
        """The module of the target."""
        return self.target.partition(":")[0]


def announcements(group: str) -> tuple[Announced, ...]:
    """The entry points of a group; a distribution of which the metadata cannot be read is named and passed over."""
    found: dict[str, list[Announced]] = {}
    for distribution in distributions():
        try:
            points = distribution.entry_points.select(group=group)
            if (
                not points
            ):  # most announce nothing, and their metadata, which take longer to read, are of no interest
                continue
            metadata: Any = distribution.metadata
            name = canonical(metadata["Name"])
            own = [
                Announced(
                    name=point.name,
                    target=point.value.partition("[")[0].replace(" ", ""),
                    distribution=name,
                    version=metadata["Version"],
                    summary=metadata["Summary"] or "",
                )
                for point in points
            ]
        except Exception as error:
            _warn(str(getattr(distribution, "_path", "of unknown place")), one_line(error))
        else:
            found.setdefault(
                name, own
            )  # of two of one name, Python imports that which comes first on the path
    return tuple(entry for own in found.values() for entry in own)


@cache
def _warn(where: str, why: str) -> None:
    _log.warning("the distribution %s cannot be read: %s; reinstall it, or remove that folder", where, why)


def installed_plugins() -> tuple[Plugin, ...]:
    """Every plug-in that an installed distribution announces, sorted; none is imported."""
    found = (
        Plugin(
            name=f"{entry.distribution}:{entry.name}",
            module=entry.target,
            distribution=entry.distribution,
            version=entry.version,
        )
        for entry in announcements("peirce.plugins")
    )
    return tuple(sorted(found, key=lambda plugin: plugin.name))


def switched_off(entry: Announced, file: RegistryFile, installed: Iterable[Plugin]) -> tuple[str, ...]:
    """The plug-ins that an entry point beside them, such as a command, belongs to, where all of them are off.

    It belongs to those of its distribution in its own top package, else to all of its distribution; what the core
    itself announces belongs to none.
    """
    own = [plugin for plugin in installed if plugin.distribution == entry.distribution]
    top = entry.module.partition(".")[0]
    near = [plugin for plugin in own if plugin.module.partition(".")[0] == top]
    names = [plugin.name for plugin in near or (() if top == "peirce" else own)]
    return () if any(map(file.is_on, names)) else tuple(names)


def off_error(what: str, plugins: tuple[str, ...]) -> RegistryError:
    """The error for what belongs to plug-ins that are switched off, such as `command 'greet'`."""
    return RegistryError(
        f"{what} belongs to {' and '.join(plugins)}, which is switched off; `peirce plugins enable {plugins[0]}` "
        "switches it on"
    )


def active_plugins(
    file: RegistryFile, extra: Iterable[str | object] = ()
) -> tuple[tuple[Wanted, ...], tuple[str, ...]]:
    """The plug-ins to load, and the names of those that are there and switched off.

    Args:
        file: what switches plug-ins on and off, and names further modules.
        extra: plug-ins to load whatever the file says, as for `named_plugin`.

    Raises:
        RegistryError: an extra plug-in is not installed.
    """
    installed, named = installed_plugins(), named_modules(file)
    wanted: list[Wanted] = [named_plugin(one, installed) for one in extra]
    wanted += [(plugin, None) for plugin in installed if file.is_on(plugin.name)]
    if named and not file.imports_modules:
        _log.warning(
            "%s names modules (%s), which are not imported from a file that was merely found; to import "
            "them, run with `--registry %s` or set PEIRCE_REGISTRY to it",
            *(file.where, ", ".join(file.modules), file.where),
        )
    else:
        wanted += [(plugin, None) for plugin in named if file.is_on(plugin.name)]
    unique = {plugin.name: (plugin, module) for plugin, module in reversed(wanted)}
    off = [plugin.name for plugin in (*installed, *named) if plugin.name not in unique]
    return tuple(reversed(unique.values())), tuple(off)


def named_modules(file: RegistryFile) -> tuple[Plugin, ...]:
    """The plug-ins that registry.toml names as modules."""
    return tuple(Plugin(name=f"module:{name}", module=name) for name in file.modules)


def named_plugin(given: str | object, installed: Iterable[Plugin] | None = None) -> Wanted:
    """What a caller names: an installed plug-in if it is one, so that its parts have their provenance.

    Args:
        given: a module or an object with hooks, `distribution:entry-point`, the name of a distribution that announces
            one plug-in, or a module's name (`module:NAME` where a distribution has that name too).
        installed: the plug-ins to look among; all that are installed when it is absent.

    Raises:
        RegistryError: no plug-in has the name, or several have it.
    """
    plugins = installed_plugins() if installed is None else tuple(installed)
    if isinstance(given, str):
        return _plugin_by_name(given, plugins), None
    if isinstance(given, ModuleType):
        found = next((plugin for plugin in plugins if plugin.module == given.__name__), None)
        name = given.__name__
    else:
        found, kind = None, given if isinstance(given, type) else type(given)
        name = f"{kind.__module__}.{kind.__qualname__}" + ("" if kind is given else f".{id(given):x}")
    made = Plugin(name=f"module:{name}", module=name, version=getattr(given, "__version__", None))
    return found or made, given


def _plugin_by_name(given: str, installed: Iterable[Plugin]) -> Plugin:
    name = canonical(given) if ":" in given else given
    for plugin in installed:
        if name in (plugin.name, plugin.module):
            return plugin
    if not name.startswith("module:"):
        if alone := announced_by(name, installed):
            return alone
        if not is_module_name(name):
            raise RegistryError(unknown("plug-in", given, known_names(installed)))
    module = name.removeprefix("module:")
    return Plugin(name=f"module:{module}", module=module)


def is_module_name(name: str) -> bool:
    """Whether a text may be the full name of a module."""
    return all(map(str.isidentifier, name.split(".")))


def announced_by(distribution: str, plugins: Iterable[Plugin]) -> Plugin | None:
    """The one plug-in of a distribution; None where no distribution has that name.

    Raises:
        RegistryError: the distribution announces several.
    """
    own = [plugin for plugin in plugins if plugin.distribution == canonical(distribution)]
    if len(own) > 1:
        names = ", ".join(plugin.name for plugin in own)
        raise RegistryError(f"{distribution!r} announces {len(own)} plug-ins: {names}; name one of them")
    return own[0] if own else None


def known_names(plugins: Iterable[Plugin]) -> tuple[str, ...]:
    """What plug-ins may be called: their names, and the distributions that announce one each."""
    plugins = tuple(plugins)
    counts = Counter(plugin.distribution for plugin in plugins if plugin.distribution is not None)
    return (*(name for name, count in counts.items() if count == 1), *(plugin.name for plugin in plugins))
