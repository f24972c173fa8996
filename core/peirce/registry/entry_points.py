"""Entry points of installed distributions, and the names of plug-ins; nothing here imports a plug-in."""

from __future__ import annotations

import logging
import re
from functools import cache
from importlib.metadata import distributions
from typing import Any

from attrs import frozen

from peirce.errors import one_line

_log = logging.getLogger("peirce")
_RENAMED = {"onnx": "export"}
"""Current names of the entry points that were called otherwise in the distribution `peirce` before 1.0."""


def canonical(plugin: str) -> str:
    """`distribution:entry-point` with the distribution's name as package indexes spell it.

    Until 0.2 one distribution announced every built-in plug-in, so `peirce:kg` is read as `peirce-kg:kg`.
    """
    distribution, separator, entry = plugin.partition(":")
    if distribution == "module":
        return plugin
    name = re.sub(r"[-_.]+", "-", distribution).lower()
    if name == "peirce" and entry:
        entry = _RENAMED.get(entry, entry)
        name = f"peirce-{entry}"
    return name + separator + entry


@frozen(kw_only=True)
class EntryPoint:
    """What a distribution announces: a plug-in, a command or a runtime; or a module that is named as a plug-in.

    Args:
        name: what it is called; for a plug-in `distribution:entry-point`, or `module:NAME`.
        target: `module`, or `module:attribute`.
        distribution: the distribution's name, as package indexes spell it; None for a module that is only named.
        version: the distribution's version.
        summary: what its metadata say of it in a line; may be empty.
    """

    name: str
    target: str
    distribution: str | None = None
    version: str | None = None
    summary: str = ""

    @property
    def top(self) -> str:
        """The package that it lies in."""
        return self.target.partition(":")[0].partition(".")[0]


def announcements(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group; a distribution whose metadata cannot be read is reported and skipped."""
    found: dict[str, list[EntryPoint]] = {}
    for distribution in distributions():
        try:
            points = distribution.entry_points.select(group=group)
            if not points:  # reading metadata takes longer, and most distributions have no such entry point
                continue
            metadata: Any = distribution.metadata
            name = canonical(metadata["Name"])
            entries = [
                EntryPoint(
                    name=point.name,
                    target=point.value.partition("[")[0].replace(" ", ""),
                    distribution=name,
                    version=metadata["Version"],
                    summary=metadata.get("Summary") or "",
                )
                for point in points
            ]
            found.setdefault(name, entries)  # of two with one name, Python imports the first on the path
        except Exception as error:
            _warn(str(getattr(distribution, "_path", "of unknown place")), one_line(error))
    return tuple(entry for entries in found.values() for entry in entries)


@cache
def _warn(where: str, why: str) -> None:
    _log.warning("the distribution %s cannot be read: %s; reinstall it, or remove that folder", where, why)
