"""Entry points of installed distributions, and the names of plug-ins; nothing here imports a plug-in."""

from __future__ import annotations

import logging
import re
from functools import cache
from importlib.metadata import Distribution, distributions
from typing import Any

from attrs import field, frozen

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
        fault: why it cannot be used, as far as metadata tell; empty otherwise.
        announced_by: the metadata; None for a module that is only named.
    """

    name: str
    target: str
    distribution: str | None = None
    version: str | None = None
    summary: str = ""
    fault: str = ""
    announced_by: Distribution | None = field(default=None, eq=False, repr=False)

    @property
    def top(self) -> str:
        """The package that it lies in."""
        return self.target.partition(":")[0].partition(".")[0]


def announcements(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group; a distribution whose metadata cannot be read is reported and skipped.

    Of two distributions with one name, Python imports the first on the path, and the other announces nothing.
    """
    found: dict[str, list[EntryPoint]] = {}
    firsts: dict[str, Distribution] = {}
    for each in distributions():
        try:
            # The name of the folder, by which the standard library finds the first one too; metadata are slow to read.
            first = firsts.setdefault(getattr(each, "_normalized_name", str(len(firsts))), each)
            points = each.entry_points.select(group=group)
            if not points or first.locate_file("") != each.locate_file(""):
                continue
            metadata: Any = each.metadata
            name, version = canonical(metadata["Name"]), metadata["Version"]
            fault = ""
            if first is not each and first.version != version:
                versions = " and ".join(sorted((first.version, version)))
                fault = f"{name} has two versions in {each.locate_file('')}, {versions}; install it again"
            entries = [
                EntryPoint(
                    name=point.name,
                    target=point.value.partition("[")[0].replace(" ", ""),
                    distribution=name,
                    version=version,
                    summary=metadata.get("Summary") or "",
                    fault=fault,
                    announced_by=each,
                )
                for point in points
            ]
            if fault or name not in found:
                found[name] = entries
        except Exception as error:
            _warn(str(getattr(each, "_path", "of unknown place")), one_line(error))
    return tuple(entry for entries in found.values() for entry in entries)


@cache
def _warn(where: str, why: str) -> None:
    _log.warning("the distribution %s cannot be read: %s; reinstall it, or remove that folder", where, why)
