"""Processes beside this one that share its work, and end with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import Any

from peirce.extras import safe_path


@contextmanager
def worker_processes(
    count: int, begin: Callable[..., object] | None = None, *given: object
) -> Iterator[ProcessPoolExecutor]:
    """Start processes as work is submitted, and end them when the block ends.

    They are spawned, since a process that has threads cannot be forked safely. They import nothing from the working
    directory. Ctrl-C, which a terminal sends to them as well, they leave to this process. They end at once when the
    block fails, and when this process is killed. Work must not be cancelled by itself, as `map` does: of a pool whose
    processes end Python then complains in a thread.

    Args:
        count: how many at most.
        begin: what each does first.
        given: what it is given.
    """
    others = set(active_children())
    with safe_path():
        executor = _Processes(count, get_context("spawn"), _begin, (begin, given))
        try:
            yield executor
        except BaseException:
            for each in set(active_children()) - others:
                each.terminate()
            executor.shutdown(wait=True)
            raise
        executor.shutdown(wait=True, cancel_futures=True)


class _Processes(ProcessPoolExecutor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As ever; a process that is started for it inherits that Ctrl-C is held back."""
        with _without_ctrl_c():
            return super().submit(fn, *args, **kwargs)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Ctrl-C is held back within it, in this process and for good in those that are started."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(begin: Callable[..., object] | None, given: tuple[Any, ...]) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    if begin is not None:
        begin(*given)


def _end_with_parent() -> None:
    """A process that was killed tells its workers nothing: they would compute on, and wait for a reader for ever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
