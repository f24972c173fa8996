"""What a registry is made of: plug-ins, the parts that they register, and those that are quarantined."""

from __future__ import annotations

from typing import Any

from attrs import frozen


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
    """A part, or an experiment, and where it comes from."""

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
