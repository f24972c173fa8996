"""A command that is told to end does so in order: what it was writing is removed, what it holds is let go."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

INTERRUPTED = 128 + signal.SIGINT
"""The exit code of a command that Ctrl-C ended."""
_ONE_PRESS = 1.0
"""Seconds within which another SIGINT is the same Ctrl-C: what starts the program may pass on what the terminal sent to
both."""


class Terminated(SystemExit):
    """The program was told to end; unlike other exits, no plug-in can be the cause of it."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP raise `Terminated`, and SIGINT `KeyboardInterrupt`; a second one ends it at once.

    Who ignores them or has a handler of their own keeps it.
    """
    handlers = {
        getattr(signal, name): handler
        for name, handler in (("SIGTERM", _end), ("SIGHUP", _end), ("SIGINT", _interrupting()))
        if hasattr(signal, name)
    }
    before = {number: signal.getsignal(number) for number in handlers}
    ours = [number for number in before if before[number] in (signal.SIG_DFL, signal.default_int_handler)]
    if threading.current_thread() is not threading.main_thread():
        ours = []
    for number in ours:
        signal.signal(number, handlers[number])
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _end(number: int, frame: Any) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    raise Terminated(128 + number)


def _interrupting() -> Callable[[int, Any], None]:
    first: float | None = None

    def interrupt(number: int, frame: Any) -> None:
        nonlocal first
        if first is None:
            first = time.monotonic()
            raise KeyboardInterrupt
        if time.monotonic() > first + _ONE_PRESS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    return interrupt
