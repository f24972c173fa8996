"""A command that is told to end does so in order: what it was writing is removed, what it holds is let go."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


class Terminated(SystemExit):
    """The program was told to end; unlike other exits, no plug-in can be the cause of it."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP raise `Terminated`; the second one ends the program at once.

    Who ignores them or has a handler of their own keeps it.
    """
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        ours = []
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: Any) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    raise Terminated(128 + number)
