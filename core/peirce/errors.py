"""What Peirce raises when a user's input, spec, plug-in or file cannot be used.

Every message says what failed, where, why, and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher


class PeirceError(Exception):
    """Something the user can put right; the command line prints it without a traceback and exits with 2."""


class SpecError(PeirceError):
    """A model spec that cannot be read or composed."""


class RegistryError(PeirceError):
    """A plug-in, a part or a registry.toml that cannot be used."""


class PlanError(SpecError):
    """A spec whose parts do not fit together: arities, widths, places or scopes."""


class ModelFileError(PeirceError):
    """A saved model that is missing something, is damaged, or was made by something newer."""


class InputError(PeirceError, ValueError):
    """Inputs to a model or a session that its signature does not allow."""


class ExportError(PeirceError):
    """A model that could not be exported."""


class TaskError(PeirceError):
    """Data or settings that a task cannot use."""


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names, most similar to `name` first."""
    return sorted(known, key=lambda other: (-SequenceMatcher(None, str(name), other).ratio(), other))


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The one sentence for a name that nothing answers to: it lists the valid names, nearest first.

    Args:
        kind: what the name should be one of, such as `position` or `option of position 'shaw'`.
        name: the name that was given.
        known: the valid ones.
    """
    what, of, owner = kind.partition(" of ")
    subject = f"unknown {what} {name!r}{of}{owner}"
    names = nearest(name, known)
    if not names:
        return f"{subject}; there are none"
    close = SequenceMatcher(None, str(name), names[0]).ratio() >= 0.6
    hint = f" Did you mean {names[0]!r}?" if close else ""
    return f"{subject}.{hint} Known: {', '.join(names)}"
