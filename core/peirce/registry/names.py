"""Who owns a name: what plug-ins register, and each name settled among those that claim it as registry.toml says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import define, evolve, field, frozen

from peirce.registry.file import RegistryFile, singular


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


@frozen(kw_only=True)
class Registered:
    """What a plug-in registers, and where it comes from.

    Args:
        part: the class of a part, the path of a ready spec, the `module:attribute` of a runtime, or a line of help.
    """

    part: Any
    kind: str
    name: str
    plugin: str
    distribution: str | None
    version: str | None


@frozen(kw_only=True)
class Quarantined:
    """A plug-in of which nothing is used.

    Args:
        cause: why, in one line.
        detail: the traceback of an import that failed; empty otherwise.
        parts: kind and name of what it was about to register, as far as that is known.
    """

    plugin: str
    distribution: str | None
    version: str | None
    cause: str
    detail: str = ""
    parts: tuple[tuple[str, str], ...] = ()


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


def settle(
    parts: Iterable[Registered], file: RegistryFile, quarantined: Iterable[Quarantined], off: Iterable[str]
) -> Names:
    """Give every name to one owner.

    Args:
        parts: all that plug-ins register.
        file: whom it prefers, and its aliases.
        quarantined: plug-ins that could not be loaded, for messages.
        off: plug-ins that are switched off, for messages.
    """
    return _Settling(file, tuple(quarantined), tuple(off)).settle(parts)


@define
class _Settling:
    file: RegistryFile
    quarantined: tuple[Quarantined, ...]
    off: tuple[str, ...]
    blocked: dict[Key, str] = field(factory=dict)
    conflicts: list[str] = field(factory=list)

    def settle(self, claimed: Iterable[Registered]) -> Names:
        parts = self.parts(claimed)
        return Names(
            parts=parts,
            letters=MappingProxyType(self.letters(parts.values())),
            aliases=self.aliases(parts),
            blocked=self.blocked,
            conflicts=tuple(self.conflicts),
        )

    def parts(self, claimed: Iterable[Registered]) -> dict[Key, Registered]:
        claims: dict[Key, list[Registered]] = {}
        for entry in claimed:
            claims.setdefault((entry.kind, entry.name), []).append(entry)
        return self.winners(
            {key: (f"{singular(key[0])} {key[1]!r}", owners) for key, owners in claims.items()}
        )

    def letters(self, parts: Iterable[Registered]) -> dict[str, str]:
        claims: dict[str, list[Registered]] = {}
        for entry in parts:
            if entry.kind == "operators" and entry.part.letter is not None:
                claims.setdefault(entry.part.letter, []).append(entry)
        what = "letter {!r} of the operators' shorthand"
        won = self.winners(
            {("letters", letter): (what.format(letter), claims[letter]) for letter in sorted(claims)}
        )
        return {letter: owner.name for (_, letter), owner in won.items()}

    def winners(self, claims: Mapping[Key, tuple[str, list[Registered]]]) -> dict[Key, Registered]:
        """The owner of each name that has one; `claims` gives what the name is called, and who claims it."""
        found = {key: self.winner(key, what, owners) for key, (what, owners) in claims.items()}
        return {key: owner for key, owner in found.items() if owner is not None}

    def winner(self, name: Key, what: str, owners: list[Registered]) -> Registered | None:
        """The owner of a name, by `prefer` when there are several or when it names another one."""
        key = ".".join(name)
        preferred = self.file.prefer.get(key)
        for owner in owners:
            if owner.plugin == preferred:
                return owner
        if preferred is None and len(owners) == 1:
            return owners[0]
        if preferred is None:
            self.conflicts.append(self.several(key, what, owners))
        elif len(owners) == 1:
            # Taking the other owner in silence would change models; the rest of the registry still works.
            self.blocked[name] = self.astray(key, what, owners)
        else:
            self.conflicts.append(self.astray(key, what, owners))
        return None

    def several(self, key: str, what: str, owners: list[Registered]) -> str:
        choices = " or ".join(f'`"{key}" = "{owner.plugin}"`' for owner in owners)
        return (
            f"{what} has {len(owners)} owners: {_listed(owners)}. Settle it with `peirce plugins prefer {key} "
            f"PLUGIN`, which writes one line under [prefer] of registry.toml: {choices}. In force is "
            f"{self.file.where}"
        )

    def astray(self, key: str, what: str, owners: list[Registered]) -> str:
        """What to say when the preferred plug-in is none of the owners."""
        preferred = self.file.prefer[key]
        state = next((f"is quarantined: {q.cause}" for q in self.quarantined if q.plugin == preferred), None)
        state = state or ("is switched off" if preferred in self.off else "does not register it")
        return (
            f'{self.file.where} prefers "{preferred}" for {what}, but that plug-in {state}. Owners there '
            f'are: {_listed(owners)}. Correct or remove the line `"{key}" = "{preferred}"` under [prefer]'
        )

    def aliases(self, parts: Mapping[Key, Registered]) -> dict[Key, str]:
        aliases = {}
        for key, name in self.file.aliases.items():
            kind, _, alias = key.partition(".")
            if hidden := parts.get((kind, alias)):
                self.conflicts.append(
                    f'alias "{key}" in {self.file.where} hides the {singular(kind)} of that name, of '
                    f"{hidden.plugin}; choose another alias"
                )
            aliases[kind, alias] = name
        return aliases


def _listed(owners: Iterable[Registered]) -> str:
    return ", ".join(f"{owner.plugin}" + (f" ({owner.version})" if owner.version else "") for owner in owners)
