"""Running the code of plug-ins: what it prints is kept off standard output, what it raises is its own failure.

A plug-in may raise anything, `KeyboardInterrupt` and `SystemExit` included. What tells them from a real Ctrl-C, or from
a request to end, is that a signal has come.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, TypeVar

from peirce.errors import message_of, printable

T = TypeVar("T")


class ForeignError(Exception):
    """What the code of a plug-in raised, as `__cause__`."""


def run_foreign(work: Callable[[], T]) -> T:
    """Run code of a plug-in, with what it prints on standard error.

    Args:
        work: the code.

    Raises:
        ForeignError: it raised, whatever that is.
        BaseException: as it is, where a signal came meanwhile; `KeyboardInterrupt` where the code passed over one.
    """
    failure: BaseException | None = None
    with output_aside(), signals() as came:
        try:
            result = work()
        except BaseException as error:
            if came() and not isinstance(error, Exception):
                raise
            failure = error
        if came():
            raise KeyboardInterrupt from failure
    if failure is not None:
        raise ForeignError from failure
    return result


def in_a_line(error: BaseException) -> str:
    """What an exception says, in one line and not at any length; even one that cannot be printed."""
    said = printable(" ".join(message_of(error).split()), _LONGEST)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


_LONGEST = 1000


@contextmanager
def signals() -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether Ctrl-C, or a request to end, has come since, and its handler raised.

    Handlers that were put in their place meanwhile are taken away. Python hands signals to the main thread alone, so
    that elsewhere none ever comes.
    """
    came: list[int] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            handler = signal.getsignal(number) if number is not None else None
            if number is not None and callable(handler):
                before[number] = handler
                signal.signal(number, _recording(came, handler))
    ours = {number: signal.getsignal(number) for number in before}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            # A handler that was called may have put another one in its place.
            if number not in came or signal.getsignal(number) is ours[number]:
                signal.signal(number, handler)


def _recording(came: list[int], handler: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
    def record(number: int, frame: Any) -> None:
        try:
            handler(number, frame)
        except BaseException:  # one that goes on in silence, as a server's may, ends nothing
            came.append(number)
            raise

    return record


@contextmanager
def output_aside() -> Iterator[None]:
    """What is written to standard output within it goes to standard error, by whatever way it is written."""
    with _Aside.lock:
        _Aside.depth += 1
        if _Aside.depth == 1:
            _send_aside()
    try:
        yield
    finally:
        with _Aside.lock:
            _Aside.depth -= 1
            if _Aside.depth == 0:
                _bring_back()


@contextmanager
def output_back() -> Iterator[None]:
    """Within `output_aside`, a place where standard output is what it was."""
    with _Aside.lock:
        if _Aside.depth:
            _bring_back()
        try:
            yield
        finally:
            if _Aside.depth:
                _send_aside()


class _Aside:
    """Where standard output is now, for all threads: the first that sends it aside is undone by the last."""

    lock = threading.Lock()
    depth = 0
    stream: TextIO
    descriptor: int | None = None


def _send_aside() -> None:
    _flush()
    _Aside.stream, sys.stdout = sys.stdout, sys.stderr
    with suppress(OSError):  # one of the two is closed
        _Aside.descriptor = os.dup(1)
        os.dup2(2, 1)


def _bring_back() -> None:
    _flush()
    sys.stdout = _Aside.stream
    if _Aside.descriptor is not None:
        os.dup2(_Aside.descriptor, 1)
        os.close(_Aside.descriptor)
    _Aside.descriptor = None


def _flush() -> None:
    """Write out what Python and C hold back for standard output."""
    for stream in (sys.stdout, sys.__stdout__):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()  # type: ignore[union-attr]
    with suppress(ImportError, OSError, AttributeError, TypeError):  # not on every system
        import ctypes

        ctypes.CDLL(None).fflush(None)
