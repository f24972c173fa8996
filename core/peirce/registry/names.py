"""The owners of names: what plug-ins register, and which claim to a name wins by registry.toml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from peirce.registry.file import RegistryFile, singular

Key = tuple[str, str]
"""A kind, or `letters`, and a name of that kind."""


@frozen
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

    @property
    def letter(self) -> Key | None:
        """An operator's letter in the shorthand, as a key; None where it has none."""
        letter = self.part.letter if self.kind == "operators" else None
        return None if letter is None else ("letters", letter)


@frozen
class Names:
    """Names and letters, each with its owner.

    Attributes:
        owners: the one owner, by kind and name or by `letters` and letter.
        blocked: by name or letter, why a claimed one has no owner.
        conflicts: for each name or letter with several owners, a sentence that says how to settle it.
    """

    owners: dict[Key, Registered] = field(factory=dict)
    blocked: dict[Key, str] = field(factory=dict)
    conflicts: list[str] = field(factory=list)

    def settle(self, claimed: Iterable[Registered], file: RegistryFile, absent: Mapping[str, str]) -> None:
        """Give every name to one owner, the one that the file prefers, and then the letters of the owners.

        Args:
            claimed: all that plug-ins register; several may claim one name.
            file: whom it prefers.
            absent: why plug-ins register nothing, such as `is switched off`, by name.
        """
        self._settle((((entry.kind, entry.name), entry) for entry in claimed), file, absent)
        lettered = [(entry.letter, entry) for entry in self.owners.values() if entry.letter is not None]
        self._settle(sorted(lettered, key=lambda claim: claim[0]), file, absent)

    def _settle(
        self, claims: Iterable[tuple[Key, Registered]], file: RegistryFile, absent: Mapping[str, str]
    ) -> None:
        rivals: dict[Key, list[Registered]] = {}
        for key, entry in claims:
            rivals.setdefault(key, []).append(entry)
        for key, entries in rivals.items():
            dotted = ".".join(key)
            preferred = file.prefer.get(dotted)
            won = [entry for entry in entries if preferred in (None, entry.plugin)]
            listed = ", ".join(one.plugin + (f" ({one.version})" if one.version else "") for one in entries)
            if len(won) == 1:
                self.owners[key] = won[0]
            elif won:
                choices = " or ".join(f'`"{dotted}" = "{entry.plugin}"`' for entry in entries)
                self.conflicts.append(
                    f"{_describe_key(key)} has {len(entries)} owners: {listed}. Settle it with `peirce plugins prefer "
                    f"{dotted} PLUGIN`, which writes one line under [prefer] of registry.toml: {choices}. The file in "
                    f"force is {file.where}"
                )
            else:  # silently taking another owner would change models
                assert preferred is not None
                why = absent.get(preferred, "does not register it")
                self.blocked[key] = (
                    f'{file.where} prefers "{preferred}" for {_describe_key(key)}, but that plug-in {why}. Its owners '
                    f'are: {listed}. Correct or remove the line `"{dotted}" = "{preferred}"` under [prefer]'
                )


def _describe_key(key: Key) -> str:
    kind, name = key
    return (
        f"letter {name!r} of the operators' shorthand" if kind == "letters" else f"{singular(kind)} {name!r}"
    )
