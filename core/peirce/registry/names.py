"""Who owns a name: what plug-ins register, and each name settled among those that claim it as registry.toml says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import evolve, frozen

from peirce.registry.file import RegistryFile, singular


@frozen(kw_only=True)
class Registered:
    """What a plug-in registers, and where it comes from.

    Args:
        part: the class of a part, the path of a ready spec, the `module:attribute` of a runtime, a line of help, or
            an experiment.
        kind: its kind, such as `operators`.
        name: its name.
        plugin: the plug-in's name.
        distribution: the distribution that announces the plug-in; None for a module that is only named.
        version: the distribution's version.
    """

    part: Any
    kind: str
    name: str
    plugin: str
    distribution: str | None
    version: str | None


Key = tuple[str, str]
"""A kind, or `letters`, and a name of that kind."""


@frozen(kw_only=True)
class Names:
    """Every name with its one owner.

    Args:
        parts: the part, or what else is registered, by kind and name.
        letters: the operator's name by the shorthand's letter.
        aliases: the part's name by kind and alias.
        blocked: why a name or a letter that is claimed stands for nothing.
        conflicts: what has several owners, each as the sentence that says how to settle it.
    """

    parts: Mapping[Key, Registered]
    letters: Mapping[str, str]
    aliases: Mapping[Key, str]
    blocked: Mapping[Key, str]
    conflicts: tuple[str, ...]

    def completed(self, parts: Iterable[Registered]) -> Names:
        """These names and those of further parts, where name and letter are free."""
        own, letters = dict(self.parts), dict(self.letters)
        for entry in parts:
            key, letter = (entry.kind, entry.name), getattr(entry.part, "letter", None)
            taken = {*own, *self.aliases, *self.blocked, *(("letters", each) for each in letters)}
            if key not in taken and ("letters", letter) not in taken:
                own[key] = entry
                if letter is not None:
                    letters[letter] = entry.name
        return evolve(self, parts=own, letters=MappingProxyType(letters))


def settle(claimed: Iterable[Registered], file: RegistryFile, absent: Mapping[str, str]) -> Names:
    """Give every name to one owner.

    Args:
        claimed: all that plug-ins register; several may claim one name.
        file: whom it prefers, and its aliases.
        absent: why plug-ins register nothing, such as `is switched off`, by name.
    """
    blocked: dict[Key, str] = {}
    conflicts: list[str] = []

    def owned(claims: Iterable[tuple[Key, Registered]]) -> dict[Key, Registered]:
        """The owner of each name that has one: the only one, or the one that `prefer` names."""
        owners: dict[Key, list[Registered]] = {}
        for key, entry in claims:
            owners.setdefault(key, []).append(entry)
        found: dict[Key, Registered] = {}
        for key, entries in owners.items():
            preferred = file.prefer.get(".".join(key))
            won = [entry for entry in entries if preferred in (None, entry.plugin)]
            if len(won) == 1:
                found[key] = won[0]
            elif won:
                conflicts.append(_several(key, entries, file))
            else:  # to take another owner in silence would change models
                blocked[key] = _astray(key, entries, file, absent)
        return found

    parts = owned(((entry.kind, entry.name), entry) for entry in claimed)
    letters = owned(
        (("letters", entry.part.letter), entry)
        for entry in parts.values()
        if entry.kind == "operators" and entry.part.letter is not None
    )
    aliases = {}
    for dotted, name in file.aliases.items():
        kind, _, alias = dotted.partition(".")
        aliases[kind, alias] = name
        if hidden := parts.get((kind, alias)):
            conflicts.append(
                f'alias "{dotted}" in {file.where} hides the {singular(kind)} of that name, of '
                f"{hidden.plugin}; choose another alias"
            )
    return Names(
        parts=parts,
        letters=MappingProxyType({letter: entry.name for (_, letter), entry in sorted(letters.items())}),
        aliases=aliases,
        blocked=blocked,
        conflicts=tuple(conflicts),
    )


def _several(key: Key, owners: list[Registered], file: RegistryFile) -> str:
    dotted = ".".join(key)
    choices = " or ".join(f'`"{dotted}" = "{owner.plugin}"`' for owner in owners)
    return (
        f"{_called(key)} has {len(owners)} owners: {_listed(owners)}. Settle it with `peirce plugins prefer {dotted} "
        f"PLUGIN`, which writes one line under [prefer] of registry.toml: {choices}. In force is {file.where}"
    )


def _astray(key: Key, owners: list[Registered], file: RegistryFile, absent: Mapping[str, str]) -> str:
    """What to say when the preferred plug-in is none of the owners."""
    dotted = ".".join(key)
    preferred = file.prefer[dotted]
    return (
        f'{file.where} prefers "{preferred}" for {_called(key)}, but that plug-in '
        f"{absent.get(preferred, 'does not register it')}. Owners there are: {_listed(owners)}. Correct or remove the "
        f'line `"{dotted}" = "{preferred}"` under [prefer]'
    )


def _called(key: Key) -> str:
    kind, name = key
    return (
        f"letter {name!r} of the operators' shorthand" if kind == "letters" else f"{singular(kind)} {name!r}"
    )


def _listed(owners: Iterable[Registered]) -> str:
    return ", ".join(f"{owner.plugin}" + (f" ({owner.version})" if owner.version else "") for owner in owners)
