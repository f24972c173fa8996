"""Worker processes that end with this process."""

from __future__ import annotations

import gzip
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import chdir, contextmanager, suppress
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from peirce.errors import TaskError
from peirce.extras import require, safe_path
from peirce.files import clear_leftovers, write_whole


@contextmanager
def worker_processes(
    count: int, begin: Callable[..., object] | None = None, *given: object
) -> Iterator[ProcessPoolExecutor]:
    """Start processes as work is submitted, and end them when the block ends.

    They are spawned, since a process that has threads cannot be forked safely. They import nothing from the working
    directory, and ignore Ctrl-C, which a terminal sends to them as well. They end at once when the block fails and when
    this process is killed. Do not cancel single futures, as `map` does: when the pool ends, Python would then print a
    traceback from a thread.

    Args:
        count: how many at most.
        begin: a function that each process calls first.
        given: its arguments.

    Raises:
        TaskError: one of them was killed.
    """
    others = set(active_children())
    with safe_path():
        executor = _Processes(count, get_context("spawn"), _start_worker, (begin, given))
        try:
            yield executor
        except BaseException as error:
            for each in set(active_children()) - others:
                each.terminate()
            executor.shutdown(wait=True)
            if isinstance(error, BrokenProcessPool):
                what = "a worker process was killed, perhaps for want of memory"
                raise TaskError(f"{what}; run it again, with fewer workers") from error
            raise
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def ray_cluster(feature: str, workers: int | None, cores: int = 1, *, extra: str) -> Iterator[int]:
    """A Ray cluster: that of RAY_ADDRESS, else one that runs on this machine, else a new one that ends with the block.

    Args:
        feature: what needs it, as `require` names it.
        workers: how many workers it must have room for; as many as have room if None.
        cores: of each worker.
        extra: the extra that brings Ray.

    Yields:
        How many workers there are to be.

    Raises:
        TaskError: Ray is not installed, or the cluster has fewer CPUs.
    """
    require(feature, "ray", extra=extra)
    import ray

    started = not ray.is_initialized()
    if started:
        # Ray lets its workers import from the folder in which it is started, before all others; Python's own has no
        # modules.
        with chdir(sys.prefix), safe_path():
            ray.init(log_to_driver=False)
    try:
        cpus = int(ray.cluster_resources().get("CPU", 0))
        size = workers or cpus // cores
        if not 0 < size * cores <= cpus:
            each = f" with {cores} threads each" if cores > 1 else ""
            raise TaskError(f"--workers {size}{each} is more than the {cpus} CPUs of the Ray cluster")
        yield size
    finally:
        if started:
            ray.shutdown()


def write_parts(
    folder: Path, numbers: Iterable[int], part: Callable[[int], str], workers: int
) -> Iterator[int]:
    """Write the numbered parts of a text that are not in a folder yet, so that an interrupted call can go on.

    Args:
        folder: where the parts go; created, and removed again if no part was written.
        numbers: the numbers of the parts.
        part: returns the text of a part by its number, in any process.
        workers: the number of processes; 1 is this process itself.

    Yields:
        the numbers as they are done.
    """
    folder.mkdir(exist_ok=True)
    missing = [number for number in numbers if not part_file(folder, number).exists()]
    try:
        if workers == 1 or len(missing) < 2:
            yield from (_write_part(folder, number, part) for number in missing)
        else:
            with worker_processes(min(workers, len(missing))) as pool:
                futures = [pool.submit(_write_part, folder, number, part) for number in missing]
                yield from (future.result() for future in as_completed(futures))
    finally:
        clear_leftovers(folder)
        with suppress(OSError):
            folder.rmdir()


def part_file(folder: Path, number: int) -> Path:
    """Where `write_parts` writes a part."""
    return folder / f"{number:06}.txt.gz"


def _write_part(folder: Path, number: int, part: Callable[[int], str]) -> int:
    # Compressed for the sake of the checksum: a part that is damaged meanwhile is noticed.
    write_whole(part_file(folder, number), gzip.compress(part(number).encode(), compresslevel=1, mtime=0))
    return number


class _Processes(ProcessPoolExecutor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit work; a process that starts for it inherits the blocked Ctrl-C."""
        with _blocked_ctrl_c():
            return super().submit(fn, *args, **kwargs)


@contextmanager
def _blocked_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C within the block, and for good in processes that start within it."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(begin: Callable[..., object] | None, given: tuple[Any, ...]) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    if begin is not None:
        begin(*given)


def _end_with_parent() -> None:
    """End with the parent: a parent that is killed tells its workers nothing, and they would compute on for ever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
