"""What installed distributions announce in their entry points; one that cannot be read is set aside and named once."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import Distribution, EntryPoint, MetadataPathFinder, distributions
from typing import Any

from attrs import frozen

from peirce.registry.file import canonical
from peirce.registry.foreign import in_a_line

_OURS = "peirce."
"""How the groups begin that Peirce reads."""
_DOTTED = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
_TARGET = re.compile(rf"{_DOTTED}(:{_DOTTED})?")
_log = logging.getLogger("peirce")


@frozen(kw_only=True)
class Announced:
    """One entry point.

    Args:
        name: what it is called.
        target: `module`, or `module:attribute`.
        distribution: the distribution's name as its metadata spell it.
        version: the distribution's version; None where its metadata have none.
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


class _UnreadableError(Exception):
    """Why a distribution cannot be used."""


def announcements(group: str) -> tuple[Announced, ...]:
    """The entry points of a group, in the order of the import path; each unreadable distribution is warned of once."""
    entries, broken = _survey(group)
    for where, why in broken.items():
        _warn(where, why)
    return entries


def set_aside_unreadable() -> None:
    """Hide unreadable distributions from all libraries of this process, after a warning.

    Many look for entry points among all distributions when they are imported, torch among them, and fail at one that
    cannot be read.
    """
    broken = _survey("")[1]
    if not broken:
        return
    for where, why in broken.items():
        _warn(where, why)
    find = MetadataPathFinder.find_distributions

    def readable(*arguments: Any, **options: Any) -> Iterator[Distribution]:
        return (found for found in find(*arguments, **options) if _where(found) not in broken)

    MetadataPathFinder.find_distributions = staticmethod(readable)  # type: ignore[assignment,method-assign]


def _survey(group: str) -> tuple[tuple[Announced, ...], dict[str, str]]:
    """What distributions announce in a group, and why some cannot be read, by where they lie."""
    entries: list[Announced] = []
    broken: dict[str, str] = {}
    seen: set[str] = set()
    for distribution in distributions():
        try:
            name, own = _own(distribution, group)
        except _UnreadableError as error:
            broken[_where(distribution)] = str(error)
            continue
        # Of two of one name, Python imports that which comes first on the path.
        if name is None or name not in seen:
            entries += own
        if name is not None:
            seen.add(name)
    return tuple(entries), broken


def _own(distribution: Distribution, group: str) -> tuple[str | None, list[Announced]]:
    """A distribution's name and what it announces in a group; of one that announces nothing to Peirce, no name."""
    try:
        # Most announce nothing, and their metadata, which take longer to read, are of no interest.
        text = distribution.read_text("entry_points.txt") or ""
        points = (
            [point for point in distribution.entry_points if point.group.startswith(_OURS)] if text else []
        )
    except Exception as error:
        raise _UnreadableError(f"its entry_points.txt cannot be read ({in_a_line(error)})") from error
    if not points:
        return None, []
    for point in points:
        if not _TARGET.fullmatch(_target(point)):
            raise _UnreadableError(
                f"its entry point {point.name!r} of {point.group} is {point.value!r}; one looks like module:attribute"
            )
    try:
        there = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
        metadata: Any = distribution.metadata if there.strip() else {}
        name, version, summary = (metadata.get(key) for key in ("Name", "Version", "Summary"))
    except Exception as error:
        raise _UnreadableError(f"its METADATA cannot be read ({in_a_line(error)})") from error
    if not name:
        raise _UnreadableError("its METADATA is missing, empty, or has no Name")
    own = [
        Announced(
            name=point.name,
            target=_target(point),
            distribution=str(name),
            version=None if version is None else str(version),
            summary=str(summary or ""),
        )
        for point in points
        if point.group == group
    ]
    return canonical(str(name)), own


def _target(point: EntryPoint) -> str:
    """What an entry point names, without extras."""
    return point.value.partition("[")[0].replace(" ", "")


def _where(distribution: Distribution) -> str:
    """The folder of a distribution's metadata."""
    return str(getattr(distribution, "_path", "of unknown place"))


@cache
def _warn(where: str, why: str) -> None:
    _log.warning("the distribution %s was set aside: %s; reinstall it, or remove that folder", where, why)
