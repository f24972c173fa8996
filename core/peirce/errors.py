"""What Peirce raises when a user's input, spec, plug-in or file cannot be used.

Every message says what failed, where, why, and what to do next.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import SequenceMatcher
from importlib import import_module
from typing import Any

LONGEST, _TAIL = 2000, 500
"""The most characters of a message, and how many of them are kept from its end, which says what to do next."""
_NOTE = 60
_LONGEST_NAME = 200
_MOST_NAMES = 20
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""What a terminal obeys or cannot show: all of C0 and C1 but tabs and line feeds, marks of direction, surrogates."""

_LACK = re.compile(
    r"not enough memory|out of memory|can(?:'t|not) allocate|failed to allocate memory|bad_?alloc|alloc_failed",
    re.IGNORECASE,
)


class PeirceError(Exception):
    """Something the user can put right; the command line prints it without a traceback and exits with 2.

    Its text may quote files from outside, and is safe to print: see `printable`.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class SpecError(PeirceError):
    """A model spec that cannot be read or composed."""


class RegistryError(PeirceError):
    """A plug-in, a part or a registry.toml that cannot be used."""


class PluginError(RegistryError):
    """A plug-in that failed while a command used it; the command line exits with 1."""


class PlanError(SpecError):
    """A spec whose parts do not fit together: arities, widths, places or scopes."""


class ModelFileError(PeirceError):
    """A saved model that is missing something, is damaged, or was made by something newer."""


class InputError(PeirceError, ValueError):
    """Inputs to a model or a session that its signature does not allow."""


class OutOfMemoryError(InputError, MemoryError):
    """Inputs that there was not enough memory for."""


class ExportError(PeirceError):
    """A model that could not be exported."""


class UnavailableError(ExportError, InputError):
    """A package or a GPU that an export or a session needs, and this machine lacks; the command line exits with 1."""


class TaskError(PeirceError):
    """Data or settings that a task cannot use."""


class BusyError(PeirceError):
    """A place that another process writes to."""


class WriteError(PeirceError):
    """A disk that cannot be written to; the request was right, so the command line exits with 1.

    Args:
        what: what was written, and where.
        number: the system's `errno`.
        safe: what is still intact, as a clause.
        advice: what to do, in the imperative.
    """

    def __init__(self, what: str, number: int, safe: str, advice: str) -> None:
        super().__init__(
            f"{what} cannot be written: {os.strerror(number)}; {safe}; {advice}, and run it again"
        )
        self.what, self.number = what, number


class PanicError(Exception):
    """What code of others raised that is no Exception, such as SystemExit; the message begins with its class."""


class RenamedWarning(FutureWarning):
    """An old name was used, which a later version takes away."""


def renamed(old: str, new: str, gone: str) -> None:
    """Warn that something has a new name; Python shows the warning once for each place that uses the old one.

    Args:
        old: the name that was used.
        new: the current name.
        gone: the version that removes the old name.
    """
    message = f"{old} is now called {new}; the old name is removed in version {gone}"
    warnings.warn(message, RenamedWarning, stacklevel=3)


def with_older_names(
    package: str, find: Callable[[str], Any], names: Mapping[str, str]
) -> Callable[[str], Any]:
    """A package's `__getattr__` that also finds older names, with a warning.

    Args:
        package: its name.
        find: its own `__getattr__`.
        names: the current `module:name` by older name.
    """

    def find_any(name: str) -> Any:
        if name not in names:
            return find(name)
        module, _, new = names[name].partition(":")
        renamed(f"{package}.{name}", f"{module}.{new}", "2.0")
        return getattr(import_module(module), new)

    return find_any


def lacks_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; torch and the runtimes share no class for it."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or (isinstance(error, Exception) and _LACK.search(message_of(error)) is not None)


def message_of(error: BaseException) -> str:
    """What an exception says."""
    try:
        return str(error)
    except BaseException:
        return "(its message cannot be formatted)"


def one_line(error: BaseException) -> str:
    """The class and the message of an exception, in one line of limited length."""
    message = printable(" ".join(message_of(error).split()), 1000)
    if isinstance(error, PanicError):
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def escape_controls(text: object) -> str:
    """A text as a terminal may show it: control characters, marks of direction and surrogates as `\\uXXXX`."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match.group()):04x}", str(text))


def printable(text: object, longest: int = LONGEST) -> str:
    """A text that is safe to quote in a message: control characters escaped, the middle of a long one cut out."""
    shown, tail = escape_controls(text), min(_TAIL, longest // 4)
    if len(shown) <= longest:
        return shown
    head = max(longest - tail - _NOTE, 1)
    cut = len(shown) - head - tail
    return f"{shown[:head]} ... ({cut:,} characters are left out) ... {shown[-tail:]}"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names, most similar to `name` first."""
    start = str(name)[:_LONGEST_NAME]
    return sorted(known, key=lambda other: (-SequenceMatcher(None, start, other).ratio(), other))


def are_close(name: str, other: str) -> bool:
    """Whether a name may be a slip for another."""
    return SequenceMatcher(None, str(name), other).ratio() >= 0.6


def unusable(what: object, reason: object) -> str:
    """The sentence for a part, such as `position 'shaw'`, that cannot be used where a spec names it."""
    return f"{what} cannot be used here: {reason}"


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for an unknown name; it lists the valid names, nearest first.

    Args:
        kind: what the name should be one of, such as `position` or `option of position 'shaw'`.
        name: the name that was given.
        known: the valid ones.
    """
    what, of, owner = kind.partition(" of ")
    subject = f"unknown {what} {printable(repr(name), _LONGEST_NAME)}{of}{owner}"
    names = nearest(name, known)
    if not names:
        return f"{subject}; there are none"
    hint = f" Did you mean {names[0]!r}?" if are_close(name, names[0]) else ""
    shown = [f'"{other}"' if "," in other else other for other in names[:_MOST_NAMES]]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{subject}.{hint} Known: {', '.join(shown)}{more}"


def check_known(kind: str, name: str, known: Collection[str], error: type[Exception] = InputError) -> None:
    """Raise an error of a class, with the sentence of `unknown`, for a name that is not among the valid ones."""
    if name not in known:
        raise error(unknown(kind, name, known))
