"""Which parts there are: the `Registry` of a set of plug-ins.

It is a value; nothing is global but the caches of `default_registry` and `default_catalogue`. `discovery` says which
plug-ins there are, `loading` validates each or quarantines it, and `names` settles who owns a name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peirce.errors import RegistryError, unknown
from peirce.registry.discovery import Wanted, active_plugins, installed_plugins, named_plugin
from peirce.registry.file import ANNOUNCED, EXPERIMENTS, KINDS, RegistryFile, find_registry_file, singular
from peirce.registry.loading import PluginManager
from peirce.registry.names import Registered, settle

if TYPE_CHECKING:
    from peirce.model import Experiment

_log = logging.getLogger("peirce")
_ALL = (*KINDS, *ANNOUNCED, EXPERIMENTS)


class Registry:
    """The parts of a set of plug-ins, and what they announce beside them, by name; it does not change once it is made.

    Make one with `Registry.discover` (what is installed and named) or `Registry.of` (the given plug-ins).

    Attributes:
        kinds: what the plug-ins were asked for.
        plugins: those that could be loaded.
        quarantined: those that could not, each with its cause.
        conflicts: what has several owners, each as the sentence that says how to settle it.
    """

    def __init__(
        self,
        plugins: Iterable[Wanted],
        file: RegistryFile,
        off: Iterable[str] = (),
        kinds: Iterable[str] | None = None,
    ) -> None:
        """Load plug-ins.

        Args:
            plugins: each with its module, or with None to import it.
            file: what settles names; its switches have been applied already.
            off: plug-ins that are there and switched off, for messages.
            kinds: what they are asked for; everything if None.
        """
        self.file, self.off = file, tuple(off)
        self.kinds = _ALL if kinds is None else tuple(kinds)
        self.plugins, registered, self.quarantined = PluginManager().load(plugins, self.kinds)
        absent = dict.fromkeys(self.off, "is switched off")
        absent |= {broken.plugin: f"is quarantined: {broken.cause}" for broken in self.quarantined}
        self._names = settle(registered, file, absent)
        self.conflicts: tuple[str, ...] = self._names.conflicts

    @classmethod
    def survey(
        cls,
        config: RegistryFile | None = None,
        path: str | Path | None = None,
        extra_plugins: Iterable[str | object] = (),
        kinds: Iterable[str] | None = None,
    ) -> Registry:
        """Load what is installed and active; conflicts are kept in `conflicts`, and nothing is said of what is broken.

        Args:
            config: what registry.toml says; found as its search order says when it is absent.
            path: the registry.toml to read instead of searching.
            extra_plugins: plug-ins to load whatever registry.toml says: modules, their names, or
                `distribution:entry-point`.
            kinds: what they are asked for: `("experiments",)` imports no part, and so no torch.

        Raises:
            RegistryError: registry.toml cannot be used.
        """
        file = config or find_registry_file(path)
        wanted, off = active_plugins(file, extra_plugins)
        return cls(wanted, file, off, kinds)

    @classmethod
    def discover(
        cls,
        config: RegistryFile | None = None,
        path: str | Path | None = None,
        extra_plugins: Iterable[str | object] = (),
        kinds: Iterable[str] | None = None,
    ) -> Registry:
        """As `survey`, but it warns of each plug-in that could not be loaded, and refuses conflicts.

        Raises:
            RegistryError: registry.toml cannot be used, or two plug-ins own one name or one letter.
        """
        registry = cls.survey(config, path, extra_plugins, kinds)
        for broken in registry.quarantined:
            _log.warning(
                "plug-in %s was not loaded: %s. `peirce plugins check %s` tells more, "
                "`peirce plugins disable %s` switches it off",
                *(broken.plugin, broken.cause, broken.plugin, broken.plugin),
            )
        return registry._settled()

    @classmethod
    def of(
        cls, *plugins: str | object, file: RegistryFile | None = None, kinds: Iterable[str] | None = None
    ) -> Registry:
        """Load just these plug-ins: modules, their names, objects with hooks, or `distribution:entry-point`.

        Raises:
            RegistryError: two of them own one name or one letter.
        """
        installed = installed_plugins()
        wanted = (named_plugin(one, installed) for one in plugins)
        return cls(wanted, file or RegistryFile(), kinds=kinds)._settled()

    def _settled(self) -> Registry:
        if self.conflicts:
            raise RegistryError("\n".join(self.conflicts))
        return self

    def completed(self, *plugins: str | object) -> Registry:
        """This registry with the parts of further plug-ins under the names and letters that stand for nothing in it.

        Args:
            plugins: as for `of`; what one of them registers under a name or a letter that is taken is left out.
        """
        installed = installed_plugins()
        loaded, registered, quarantined = PluginManager().load(
            (named_plugin(one, installed) for one in plugins), KINDS
        )
        more = copy(self)
        more.plugins += loaded
        more.quarantined += quarantined
        more._names = self._names.completed(registered)
        return more

    def entry(self, kind: str, name: str) -> Registered:
        """What a name or an alias of a kind stands for, with its plug-in, distribution and version.

        Raises:
            RegistryError: there is none; the message lists the nearest names and what could not be loaded.
        """
        self._check_kind(kind)
        actual = self._names.aliases.get((kind, name), name)
        found = self._names.parts.get((kind, actual))
        if found is None:
            raise RegistryError(self._names.blocked.get((kind, actual)) or self._missing(kind, name, actual))
        return found

    def get(self, kind: str, name: str) -> type[Any]:
        """The part of a kind that a name or an alias stands for; raises as `entry`."""
        return self.entry(kind, name).part

    def entries(self, kind: str) -> tuple[Registered, ...]:
        """Everything of a kind with where it comes from, sorted by name."""
        self._check_kind(kind)
        return tuple(self._names.parts[key] for key in sorted(self._names.parts) if key[0] == kind)

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of a kind, sorted; aliases are not among them."""
        return tuple(entry.name for entry in self.entries(kind))

    def aliases(self, kind: str) -> Mapping[str, str]:
        """The names of a kind's parts by alias."""
        return {alias: name for (its, alias), name in self._names.aliases.items() if its == kind}

    @property
    def letters(self) -> Mapping[str, str]:
        """The names of operators by their letters in the shorthand."""
        return self._names.letters

    def why_no_letter(self, letter: str) -> str | None:
        """Why a letter that operators claim stands for none of them; None where none claims it or it does stand."""
        return self._names.blocked.get(("letters", letter))

    @property
    def experiments(self) -> Mapping[str, Experiment]:
        """The experiments by name, in the order in which plug-ins register them."""
        return {name: found.part for (kind, name), found in self._names.parts.items() if kind == EXPERIMENTS}

    def _check_kind(self, kind: str) -> None:
        if kind not in self.kinds:
            raise RegistryError(unknown("part kind", kind, self.kinds))

    def _missing(self, kind: str, name: str, actual: str) -> str:
        what = singular(kind)
        via = f" (alias of {actual!r} in {self.file.where})" if actual != name else ""
        owners = [broken for broken in self.quarantined if (kind, actual) in broken.parts]
        doubtful = owners or [broken for broken in self.quarantined if not broken.parts]
        causes = "; ".join(f"{broken.plugin}: {broken.cause}" for broken in doubtful)
        if owners:
            return (
                f"{what} {name!r}{via} belongs to a plug-in that is quarantined. {causes}. "
                f"`peirce plugins check {owners[0].plugin}` tells more"
            )
        message = unknown(what, actual, (*self.names(kind), *self.aliases(kind))) + via
        if doubtful:
            message += f". It may belong to a plug-in that is quarantined: {causes}"
        if self.off:
            off = ", ".join(self.off)
            message += f". Switched off: {off}; `peirce plugins enable PLUGIN` switches one on"
        return message


@cache
def default_registry() -> Registry:
    """What is installed and active, discovered once a process."""
    return Registry.discover()


@cache
def default_catalogue() -> Registry:
    """What is installed and active beside parts, surveyed once a process; it imports no part, and so no torch."""
    return Registry.survey(kinds=ANNOUNCED)._settled()
