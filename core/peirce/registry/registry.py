"""The `Registry`: the parts of a set of plug-ins, by name.

It is a value; only the caches of `default_registry` and `default_catalogue` are global. `discovery` lists the plug-ins,
`loading` validates or quarantines each, and `names` settles which plug-in owns a name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

from peirce.errors import RegistryError, check_known, unknown
from peirce.registry.discovery import Wanted, active_plugins, installed_plugins, named_plugin
from peirce.registry.file import RegistryFile, find_registry_file, singular
from peirce.registry.kinds import KINDS, all_kinds, announced_kinds
from peirce.registry.loading import load
from peirce.registry.names import Names, Registered

_log = logging.getLogger("peirce")


RECIPE_SECTIONS: Mapping[str, str] = {
    "moe": "i-want", "mixture_of_experts": "i-want", "mamba": "mamba", "mamba2": "mamba", "s4": "mamba", "ssm": "mamba",
    "linear_attention": "linear-attention", "performer": "linear-attention", "retnet": "linear-attention",
    "window": "a-mask-of-my-own", "sliding_window": "a-mask-of-my-own", "local": "a-mask-of-my-own",
    "focal": "a-loss-of-my-own",
}  # fmt: skip
"""Names from the literature that no part has, each with the section of the recipes that explains what to use."""


class Registry:
    """The parts of a set of plug-ins, and what they announce beside them, by name; it does not change once it is made.

    Make one with `Registry.discover` (what is installed and named) or `Registry.of` (the given plug-ins).

    Attributes:
        kinds: the kinds of things that were loaded.
        plugins: the plug-ins that could be loaded.
        quarantined: those that could not, each with its cause.
        conflicts: for each name with several owners, a sentence that says how to settle it.
    """

    def __init__(
        self, wanted: Iterable[Wanted], file: RegistryFile, off: Iterable[str], kinds: Iterable[str] | None
    ) -> None:
        """Load the wanted plug-ins; `off` are the names of those that are switched off, for messages."""
        self.file, self.off = file, tuple(off)
        self.kinds = tuple(all_kinds() if kinds is None else kinds)
        self.plugins, registered, self.quarantined = load(wanted, self.kinds)
        absent = {plugin: file.why_off(plugin) for plugin in self.off}
        absent |= {broken.plugin: f"is quarantined: {broken.cause}" for broken in self.quarantined}
        self._names = Names()
        self._names.settle(registered, file, absent)
        self._aliases: dict[tuple[str, str], str] = {}
        for dotted, name in file.aliases.items():
            kind, _, alias = dotted.partition(".")
            self._aliases[kind, alias] = name
            if hidden := self._names.owners.get((kind, alias)):
                self._names.conflicts.append(
                    f'alias "{dotted}" in {file.where} hides the {singular(kind)} of that name, of {hidden.plugin}; '
                    "choose another alias"
                )
        self.conflicts = tuple(self._names.conflicts)

    @classmethod
    def discover(
        cls,
        config: RegistryFile | str | Path | None = None,
        extra_plugins: Iterable[str | object] = (),
        kinds: Iterable[str] | None = None,
        strict: bool = True,
    ) -> Registry:
        """Load what is installed and active, and warn of each plug-in that could not be loaded.

        Args:
            config: what registry.toml says, or which one to read; found as its search order says when it is absent.
            extra_plugins: plug-ins to load whatever registry.toml says: modules, their names, or
                `distribution:entry-point`.
            kinds: the kinds to load, all if None: `("specs",)` imports no part, and so no torch.
            strict: if False, broken plug-ins are not reported, and conflicts are only listed in `conflicts`.

        Raises:
            RegistryError: registry.toml cannot be used, or two plug-ins own one name or one letter.
        """
        file = config if isinstance(config, RegistryFile) else find_registry_file(config)
        wanted, off = active_plugins(file, extra_plugins)
        registry = cls(wanted, file, off, kinds)
        if not strict:
            return registry
        for broken in registry.quarantined:
            _log.warning(
                "plug-in %s was not loaded: %s. `peirce plugins check %s` tells more, "
                "`peirce plugins disable %s` switches it off",
                *(broken.plugin, broken.cause, broken.plugin, broken.plugin),
            )
        return registry._check_conflicts()

    @classmethod
    def of(
        cls, *plugins: str | object, file: RegistryFile | None = None, kinds: Iterable[str] | None = None
    ) -> Registry:
        """Load just these plug-ins: modules, their names, objects with hooks, or `distribution:entry-point`.

        Raises:
            RegistryError: two of them own one name or one letter.
        """
        return cls(_wanted_plugins(plugins), file or RegistryFile(), (), kinds)._check_conflicts()

    def _check_conflicts(self) -> Registry:
        if self.conflicts:
            raise RegistryError("\n".join(self.conflicts))
        return self

    def completed(self, *plugins: str | object) -> Registry:
        """This registry with the parts of further plug-ins added under names and letters that are free in it.

        Args:
            plugins: as for `of`; what one of them registers under a name or a letter that is taken is left out.
        """
        loaded, registered, quarantined = load(_wanted_plugins(plugins), KINDS)
        owners = dict(self._names.owners)
        for entry in registered:
            keys = [(entry.kind, entry.name), *filter(None, [entry.letter])]
            if not any(
                key in known for key in keys for known in (owners, self._aliases, self._names.blocked)
            ):
                owners |= dict.fromkeys(keys, entry)
        more = copy(self)
        more.plugins += loaded
        more.quarantined += quarantined
        more._names = Names(owners, self._names.blocked)
        return more

    def entry(self, kind: str, name: str) -> Registered:
        """What is registered under a name or an alias of a kind, with its plug-in, distribution and version.

        Raises:
            RegistryError: nothing is; the message lists the nearest names and what could not be loaded.
        """
        self._check_kind(kind)
        actual = self._aliases.get((kind, name), name)
        found = self._names.owners.get((kind, actual))
        if found is None:
            raise RegistryError(
                self._names.blocked.get((kind, actual)) or self._missing_message(kind, name, actual)
            )
        return found

    def get(self, kind: str, name: str) -> type[Any]:
        """The part that is registered under a name or an alias of a kind; raises as `entry`."""
        return self.entry(kind, name).part

    def entries(self, kind: str) -> tuple[Registered, ...]:
        """Everything of a kind with where it comes from, sorted by name."""
        self._check_kind(kind)
        names = sorted(name for its, name in self._names.owners if its == kind)
        return tuple(self._names.owners[kind, name] for name in names)

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of a kind, sorted; aliases are not among them."""
        return tuple(entry.name for entry in self.entries(kind))

    def aliases(self, kind: str) -> Mapping[str, str]:
        """The names of a kind's parts by alias."""
        return {alias: name for (its, alias), name in self._aliases.items() if its == kind}

    @property
    def letters(self) -> Mapping[str, str]:
        """The names of operators by their letters in the shorthand."""
        return {
            letter: found.name for (kind, letter), found in self._names.owners.items() if kind == "letters"
        }

    def why_no_letter(self, letter: str) -> str | None:
        """Why a letter that operators claim has no owner; None for one that is owned or not claimed."""
        return self._names.blocked.get(("letters", letter))

    def _check_kind(self, kind: str) -> None:
        check_known("part kind", kind, self.kinds, RegistryError)

    def _missing_message(self, kind: str, name: str, actual: str) -> str:
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
        if kind == "specs" or kind in KINDS:
            message += f"; `peirce {'spec ' if kind == 'specs' else ''}list` lists all"
        if doubtful:
            message += f". It may belong to a plug-in that is quarantined: {causes}"
        if section := RECIPE_SECTIONS.get(actual.lower().replace("-", "_")):
            message += f". {actual}: see the guide's page of recipes, {section.replace('-', ' ')!r}"
        if modules := [plugin for plugin in self.off if plugin.startswith("module:")]:
            message += f". {modules[0]} {self.file.why_off(modules[0])}"
        if off := ", ".join(plugin for plugin in self.off if plugin not in modules):
            message += f". Switched off: {off}; `peirce plugins enable PLUGIN` switches one on"
        return message


def _wanted_plugins(plugins: Iterable[str | object]) -> Iterable[Wanted]:
    installed = installed_plugins()
    return [named_plugin(one, installed) for one in plugins]


@cache
def default_registry() -> Registry:
    """What is installed and active, discovered once a process."""
    return Registry.discover()


@cache
def default_catalogue() -> Registry:
    """What is installed and active beside parts, discovered once a process; it imports no part, and so no torch."""
    return Registry.discover(kinds=announced_kinds(), strict=False)._check_conflicts()
