"""Which plug-ins there are, and which of them a registry is to load; nothing here imports one."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable
from itertools import takewhile
from types import ModuleType

from peirce.errors import RegistryError, unknown
from peirce.registry.distributions import Announced, announcements
from peirce.registry.file import RegistryFile, canonical
from peirce.registry.names import Plugin

GROUP = "peirce.plugins"
_log = logging.getLogger("peirce")

Wanted = tuple[Plugin, object]
"""A plug-in, and its module; None where it is to be imported."""


def installed_plugins() -> tuple[Plugin, ...]:
    """Every plug-in that an installed distribution announces, sorted; none is imported."""
    found: dict[str, Plugin] = {}
    for entry in announcements(GROUP):
        owner = canonical(entry.distribution)
        name = f"{owner}:{entry.name}"
        found.setdefault(
            name, Plugin(name=name, module=entry.target, distribution=owner, version=entry.version)
        )
    return tuple(found[name] for name in sorted(found))


def switched_off(entry: Announced, file: RegistryFile, installed: Iterable[Plugin]) -> tuple[str, ...]:
    """The plug-ins that an entry point beside them, such as a command, belongs to, where all of them are off.

    It belongs to those of its distribution whose modules are nearest to its own: `lab.logic.cli` to `lab.logic.plugin`
    rather than to `lab.text.plugin`. What ships with the core itself belongs to none.
    """
    owner = canonical(entry.distribution)
    plugins = [plugin for plugin in installed if plugin.distribution == owner]
    shared = [shared_packages(plugin.module, entry.module) for plugin in plugins]
    nearest = max(shared, default=0)
    if not plugins or (nearest == 0 and owner == "peirce"):
        return ()
    own = [plugin.name for plugin, much in zip(plugins, shared, strict=True) if much == nearest]
    return () if any(file.is_on(name) for name in own) else tuple(own)


def shared_packages(one: str, other: str) -> int:
    """How many packages two modules share, from the top."""
    pairs = zip(one.partition(":")[0].split("."), other.split("."), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


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
    installed = installed_plugins()
    wanted: list[Wanted] = [named_plugin(one, installed) for one in extra]
    wanted += [(plugin, None) for plugin in installed if file.is_on(plugin.name)]
    named = [Plugin(name=f"module:{name}", module=name) for name in file.modules]
    if named and not file.imports_modules:
        _log.warning(
            "%s names modules (%s), which are not imported from a file that was merely found; to import "
            "them, run with `--registry %s` or set PEIRCE_REGISTRY to it",
            *(file.where, ", ".join(file.modules), file.where),
        )
    elif named:
        wanted += [(plugin, None) for plugin in named if file.is_on(plugin.name)]
    unique = {plugin.name: (plugin, module) for plugin, module in reversed(wanted)}
    off = [plugin.name for plugin in (*installed, *named) if plugin.name not in unique]
    return tuple(reversed(unique.values())), tuple(off)


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
    module = given.__name__ if isinstance(given, ModuleType) else _object_name(given)
    for plugin in plugins:
        if module == plugin.module and isinstance(given, ModuleType):
            return plugin, given
    return Plugin(name=f"module:{module}", module=module, version=getattr(given, "__version__", None)), given


def _plugin_by_name(given: str, installed: Iterable[Plugin]) -> Plugin:
    name = canonical(given) if ":" in given else given
    for plugin in installed:
        if name in (plugin.name, plugin.module):
            return plugin
    if name.startswith("module:"):
        return Plugin(name=name, module=name.removeprefix("module:"))
    if alone := announced_by(name, installed):
        return alone
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name):
        raise RegistryError(unknown("plug-in", given, known_names(installed)))
    return Plugin(name=f"module:{name}", module=name)


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


def known_names(plugins: Iterable[Plugin] | None = None) -> tuple[str, ...]:
    """What plug-ins may be called: their names, and the distributions that announce one each.

    Args:
        plugins: all that are installed when it is absent.
    """
    plugins = installed_plugins() if plugins is None else tuple(plugins)
    counts = Counter(plugin.distribution for plugin in plugins if plugin.distribution is not None)
    return (*(name for name, count in counts.items() if count == 1), *(plugin.name for plugin in plugins))


def _object_name(given: object) -> str:
    if isinstance(given, type):
        return f"{given.__module__}.{given.__qualname__}"
    return f"{type(given).__module__}.{type(given).__qualname__}.{id(given):x}"
