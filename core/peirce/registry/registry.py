"""Which parts there are: the `Registry`, and who is asked for a part by name.

A `Registry` is a value; nothing is global but the cache of `default_registry`. `registry_discovery` says which
plug-ins there are, `registry_loading` validates each or quarantines it, `registry_names` settles who owns a name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

from peirce.errors import RegistryError, unknown
from peirce.registry.discovery import active_plugins, installed_plugins, named_plugin
from peirce.registry.failures import record
from peirce.registry.file import KINDS, RegistryFile, find_registry_file
from peirce.registry.loading import load
from peirce.registry.names import settle
from peirce.registry.values import Plugin, Quarantined, Registered

__all__ = [
    "KINDS",
    "Plugin",
    "Quarantined",
    "Registered",
    "Registry",
    "default_registry",
    "installed_plugins",
]

_log = logging.getLogger("peirce")


class Registry:
    """The parts of a set of plug-ins; it does not change once it is made.

    Make one with `Registry.discover` (what is installed and named) or `Registry.of` (the given plug-ins).
    """

    def __init__(
        self, plugins: Iterable[tuple[Plugin, object]], file: RegistryFile, off: Iterable[str] = ()
    ) -> None:
        """Load plug-ins.

        Args:
            plugins: each with its module, or with None to import it.
            file: what settles names; its switches have been applied already.
            off: plug-ins that are there and switched off, for messages.
        """
        self.file = file
        self.off = tuple(off)
        loaded = load(plugins)
        self.plugins: tuple[Plugin, ...] = loaded.plugins
        self.quarantined: tuple[Quarantined, ...] = loaded.quarantined
        self._names = settle(loaded.parts, file, loaded.quarantined, self.off)
        self.conflicts: tuple[str, ...] = self._names.conflicts
        self.letters: Mapping[str, str] = self._names.letters

    @classmethod
    def discover(
        cls,
        config: RegistryFile | None = None,
        path: str | Path | None = None,
        extra_plugins: Iterable[str | object] = (),
    ) -> Registry:
        """Load what is installed and active, as registry.toml says.

        Args:
            config: what registry.toml says; found as its search order says when it is absent.
            path: the registry.toml to read instead of searching.
            extra_plugins: plug-ins to load whatever registry.toml says: modules, their names, or
                `distribution:entry-point`.

        Raises:
            RegistryError: registry.toml cannot be used, or two plug-ins own one name or one letter.
        """
        registry = cls.survey(config, path, extra_plugins)
        for broken in registry.quarantined:
            _log.warning(
                "plug-in %s was not loaded: %s. `peirce plugins check %s` tells more, "
                "`peirce plugins disable %s` switches it off",
                *(broken.plugin, broken.cause, broken.plugin, broken.plugin),
            )
        if registry.conflicts:
            raise RegistryError("\n".join(registry.conflicts))
        return registry

    @classmethod
    def survey(
        cls,
        config: RegistryFile | None = None,
        path: str | Path | None = None,
        extra_plugins: Iterable[str | object] = (),
    ) -> Registry:
        """As `discover`, but conflicts are kept in `conflicts` instead of raised, and nothing is said."""
        file = config or find_registry_file(path)
        wanted, off = active_plugins(file, extra_plugins)
        registry = cls(wanted, file, off)
        record(
            {plugin.name: plugin.version for plugin in registry.plugins},
            {broken.plugin: (broken.version, broken.cause) for broken in registry.quarantined},
        )
        return registry

    @classmethod
    def of(cls, *plugins: str | object, file: RegistryFile | None = None) -> Registry:
        """Load just these plug-ins: modules, their names, objects with hooks, or `distribution:entry-point`.

        Raises:
            RegistryError: two of them own one name or one letter.
        """
        installed = installed_plugins()
        registry = cls((named_plugin(one, installed) for one in plugins), file or RegistryFile())
        if registry.conflicts:
            raise RegistryError("\n".join(registry.conflicts))
        return registry

    def completed(self, *plugins: str | object) -> Registry:
        """This registry with the parts of further plug-ins under the names and letters that stand for nothing in it.

        Args:
            plugins: as for `of`; what one of them registers under a name or a letter that is taken is left out.
        """
        installed = installed_plugins()
        loaded = load(named_plugin(one, installed) for one in plugins)
        more = copy(self)
        more.plugins = (*self.plugins, *loaded.plugins)
        more.quarantined = (*self.quarantined, *loaded.quarantined)
        more._names = self._names.completed(loaded.parts)
        more.letters = more._names.letters
        return more

    def get(self, kind: str, name: str) -> type[Any]:
        """The part of a kind that a name or an alias stands for.

        Raises:
            RegistryError: there is none; the message lists the nearest names and what could not be loaded.
        """
        return self.entry(kind, name).part

    def entry(self, kind: str, name: str) -> Registered:
        """A part with its plug-in, distribution and version; raises as `get`."""
        if kind not in KINDS:
            raise RegistryError(unknown("part kind", kind, KINDS))
        actual = self._names.aliases.get((kind, name), name)
        found = self._names.parts.get((kind, actual))
        if found is not None:
            return found
        if (kind, actual) in self._names.blocked:
            raise RegistryError(self._names.blocked[kind, actual])
        raise RegistryError(self._missing(kind, name, actual))

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of a kind's parts, sorted; aliases are not among them."""
        return tuple(entry.name for entry in self.entries(kind))

    def entries(self, kind: str) -> tuple[Registered, ...]:
        """A kind's parts with where they come from, sorted by name."""
        if kind not in KINDS:
            raise RegistryError(unknown("part kind", kind, KINDS))
        return tuple(self._names.parts[key] for key in sorted(self._names.parts) if key[0] == kind)

    def aliases(self, kind: str) -> Mapping[str, str]:
        """The names of a kind's parts by alias."""
        return {alias: name for (its, alias), name in self._names.aliases.items() if its == kind}

    def _missing(self, kind: str, name: str, actual: str) -> str:
        singular = kind.removesuffix("s")
        via = f" (alias of {actual!r} in {self.file.where})" if actual != name else ""
        owners = [broken for broken in self.quarantined if (kind, actual) in broken.parts]
        if owners:
            causes = "; ".join(f"{broken.plugin}: {broken.cause}" for broken in owners)
            return (
                f"{singular} {name!r}{via} belongs to a plug-in that is quarantined. {causes}. "
                f"`peirce plugins check {owners[0].plugin}` tells more"
            )
        message = unknown(singular, actual, (*self.names(kind), *self.aliases(kind))) + via
        doubtful = [broken for broken in self.quarantined if not broken.parts]
        if doubtful:
            causes = "; ".join(f"{broken.plugin}: {broken.cause}" for broken in doubtful)
            message += f". It may belong to a plug-in that is quarantined: {causes}"
        if self.off:
            message += (
                f". Switched off: {', '.join(self.off)}; `peirce plugins enable PLUGIN` switches one on"
            )
        return message

    def why_no_letter(self, letter: str) -> str | None:
        """Why a letter that operators claim stands for none of them; None where none claims it or it does stand."""
        return self._names.blocked.get(("letters", letter))


@cache
def default_registry() -> Registry:
    """What is installed and active, discovered once a process."""
    return Registry.discover()
