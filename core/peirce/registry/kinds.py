"""The kinds of things that plug-ins register by name: those of the core, and those that distributions add.

A distribution adds kinds by an entry point of the group `peirce.hooks`. It names a module with a function
`register_KIND` for each kind, marked `@peirce.registry.hookspec`, and a tuple `KINDS` with a `Kind` for each.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from attrs import field, frozen

from peirce.errors import one_line
from peirce.registry.entry_points import EntryPoint, announcements
from peirce.registry.importing import import_announced

_log = logging.getLogger("peirce")
GROUP = "peirce.hooks"
KINDS = ("operators", "positions", "augmenters", "heads", "architectures", "tasks", "exporters")
"""The kinds of parts; the hook of each is `register_KIND`."""
ANNOUNCED = ("specs", "commands")
"""What plug-ins announce beside parts, with hooks of such names; all of it can be read without torch."""
Read = tuple[list[tuple[str, Any]], list[str]]
"""Pairs of a name and what can be registered under it, and sentences that say why the rest cannot."""
WORD = r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)?"
TARGET = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"


@frozen(kw_only=True)
class Kind:
    """A kind that a distribution adds to what plug-ins register.

    Args:
        name: the plural, such as `parsers`; its hook is `register_parsers`.
        read: reads what the hook returned. It returns pairs of a name and a thing that can be registered, and for each
            other thing what is wrong, as a sentence without its subject, the hook, such as `returns 3, which is not an
            experiment`.
        announced: whether the hook imports neither parts nor torch, so that commands may read it at any time.
    """

    name: str = field()
    read: Callable[[object], Read]
    announced: bool = True

    @name.validator
    def _check_name(self, attribute: object, name: str) -> None:
        if not re.fullmatch(r"[a-z]+", name) or name in (*KINDS, *ANNOUNCED):
            raise ValueError(f"{name!r} must be one word in small letters that no kind of the core has")


def read_mapping(result: object, names: str, texts: str, example: str) -> Read:
    """Read the result of a hook that must return a mapping from names to texts, given the patterns of both."""
    if not isinstance(result, Mapping):
        return [], [f"must return a mapping such as {{{example}}}, not {result!r}"]
    broken = [
        f"returns {name!r}: {text!r}; an entry looks like {example}"
        for name, text in result.items()
        if not (isinstance(name, str) and re.fullmatch(names, name))
        or not (isinstance(text, str) and re.fullmatch(texts, text))
    ]
    return [(str(name).removeprefix("."), text) for name, text in result.items()], broken


def targets(example: str, names: str = WORD) -> Callable[[object], Read]:
    """A `Kind.read` for a hook that returns a mapping from names to `module:attribute`.

    Args:
        example: an entry of such a mapping as Python writes it, for messages.
        names: a regular expression of names.
    """
    return lambda result: read_mapping(result, names, TARGET, example)


def added_kinds() -> Mapping[str, Kind]:
    """The kinds that installed distributions add, by name."""
    return {kind.name: kind for _, kind in _installed_kinds()}


def hook_modules() -> tuple[ModuleType, ...]:
    """The modules with the hooks of `added_kinds`."""
    return tuple(dict.fromkeys(module for module, _ in _installed_kinds()))


def all_kinds() -> tuple[str, ...]:
    """Every kind that plug-ins can register."""
    return (*KINDS, *ANNOUNCED, *added_kinds())


def announced_kinds() -> tuple[str, ...]:
    """The kinds that can be read without torch."""
    return (*ANNOUNCED, *(name for name, kind in added_kinds().items() if kind.announced))


def preferable_kinds() -> tuple[str, ...]:
    """The kinds of names that may have several owners, of which registry.toml prefers one."""
    return (*all_kinds(), "letters")


def _installed_kinds() -> tuple[tuple[ModuleType, Kind], ...]:
    return _kinds_on(tuple(sys.path))


@cache
def _kinds_on(path: tuple[str, ...]) -> tuple[tuple[ModuleType, Kind], ...]:
    """The kinds on an import path; looking for entry points reads every distribution there, so once is enough."""
    return _added(announcements(GROUP))


def _added(entries: tuple[EntryPoint, ...]) -> tuple[tuple[ModuleType, Kind], ...]:
    """The kinds of some entry points with their modules; one that cannot be used is reported once."""
    found: dict[str, tuple[ModuleType, Kind]] = {}
    owners: dict[str, str] = {}
    for entry in sorted(entries, key=lambda entry: (str(entry.distribution), entry.name)):
        try:
            module = import_announced(entry)
            kinds = [kind for kind in module.KINDS if callable(getattr(module, f"register_{kind.name}"))]
        except Exception as error:
            _log.warning(
                "the hooks of %s (%s) are not used: %s", entry.distribution, entry.target, one_line(error)
            )
            continue
        for kind in kinds:
            if kind.name in owners:
                _log.warning(
                    "%s and %s both add the kind %r; that of %s is used: uninstall one of them",
                    *(owners[kind.name], entry.distribution, kind.name, owners[kind.name]),
                )
                continue
            owners[kind.name], found[kind.name] = str(entry.distribution), (module, kind)
    return tuple(found.values())
