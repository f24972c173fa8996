"""Who samples blocks of queries: this process, processes beside it, or a Ray cluster. All give the same blocks."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import parent_process
from threading import Thread
from typing import Any, Protocol

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray
from peirce.errors import TaskError, unknown
from peirce.extras import require

from peirce_kg.graphs.graph import Graph, Split
from peirce_kg.queries.types import QueryType
from peirce_kg.sampling.lookup import Lookup
from peirce_kg.sampling.sampler import Block, TypeSampler

ENGINES = ("local", "ray")


@frozen(eq=False)
class Setup:
    """What a worker needs to know, and no names: it may have to travel.

    Args:
        entities, relations: how many there are.
        triples, levels: see `Lookup`.
        types: the query types by name.
        split, seed, max_answers: see `sampler.sample`.
    """

    entities: int
    relations: int
    triples: NDArray[np.int32] = field(repr=False)
    levels: NDArray[np.uint8] = field(repr=False)
    types: Mapping[str, QueryType]
    split: Split
    seed: int
    max_answers: int

    @classmethod
    def of(
        cls, graph: Graph, types: Mapping[str, QueryType], split: Split, seed: int, max_answers: int
    ) -> Setup:
        """What workers need of a graph."""
        lookup = Lookup.of(graph)
        return cls(
            graph.entities, graph.relations, lookup.triples, lookup.levels, types, split, seed, max_answers
        )


@frozen
class Task:
    """A block to be sampled: of which type, its number, and how many queries at most."""

    type: str
    number: int
    limit: int


@frozen(eq=False)
class Done:
    """A block that was sampled, and the seconds of processor time that it took."""

    task: Task
    block: Block
    seconds: float


class Worker:
    """Samples blocks, one after another."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._lookup = Lookup(setup.entities, setup.relations, setup.triples, setup.levels)
        self._samplers: dict[str, TypeSampler] = {}

    def run(self, task: Task) -> Done:
        """Sample a block."""
        since = time.thread_time()
        if task.type not in self._samplers:
            setup = self._setup
            self._samplers[task.type] = TypeSampler(
                setup.types[task.type], self._lookup, setup.split, setup.seed, setup.max_answers
            )
        block = self._samplers[task.type].block(task.number, task.limit)
        return Done(task, block, time.thread_time() - since)


class Pool(Protocol):
    """Workers. room: how many tasks to hand them at a time, so that none of them waits."""

    room: int

    def submit(self, task: Task) -> None:
        """Queue a task."""

    def wait(self) -> Done:
        """The result of a task that is done; there must be one under way."""


def pool(engine: str, workers: int | None, setup: Setup) -> AbstractContextManager[Pool]:
    """Start workers.

    Args:
        engine: `local` for processes of this machine, `ray` for a Ray cluster.
        workers: how many; one, or with Ray as many as the cluster has processors, when None.
        setup: what they sample.

    Raises:
        TaskError: there is no such engine, or what it needs is not installed.
    """
    if engine not in ENGINES:
        raise TaskError(unknown("engine", engine, ENGINES))
    if engine == "ray":
        return _ray(workers, setup)
    return _here(setup) if (workers or 1) == 1 else _processes(workers or 1, setup)


class _Here:
    """This process."""

    room = 1

    def __init__(self, setup: Setup) -> None:
        self._worker, self._tasks = Worker(setup), deque[Task]()

    def submit(self, task: Task) -> None:
        self._tasks.append(task)

    def wait(self) -> Done:
        return self._worker.run(self._tasks.popleft())


@contextmanager
def _here(setup: Setup) -> Iterator[Pool]:
    yield _Here(setup)


class _Process:
    """The worker of a process that `_processes` starts."""

    worker: Worker


def _start(setup: Setup) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    _Process.worker = Worker(setup)


def _end_with_parent() -> None:
    """A process that was killed tells its workers nothing: they would compute on, and wait for a reader for ever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run(task: Task) -> Done:
    return _Process.worker.run(task)


class _Processes:
    """Processes of this machine."""

    def __init__(self, executor: Any, room: int) -> None:
        self.room, self._executor, self._futures = room, executor, set[Any]()

    def submit(self, task: Task) -> None:
        self._futures.add(self._executor.submit(_run, task))

    def wait(self) -> Done:
        from concurrent.futures import FIRST_COMPLETED, wait
        from concurrent.futures.process import BrokenProcessPool

        future = next(iter(wait(self._futures, return_when=FIRST_COMPLETED).done))
        self._futures.remove(future)
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise TaskError(
                "a worker was killed, perhaps for want of memory; the same command goes on from the last whole block, "
                "try it with fewer --workers"
            ) from error


@contextmanager
def _processes(workers: int, setup: Setup) -> Iterator[Pool]:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # spawned, since a process that has threads cannot be forked safely
    executor = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start, initargs=(setup,))
    try:
        yield _Processes(executor, 2 * workers)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


class _Ray:
    """Actors of a Ray cluster, each with one task at a time; the others wait here."""

    def __init__(self, ray: Any, actors: list[Any]) -> None:
        self.room, self._ray, self._idle = 2 * len(actors), ray, actors
        self._waiting: deque[Task] = deque()
        self._running: dict[Any, Any] = {}

    def submit(self, task: Task) -> None:
        self._waiting.append(task)
        self._hand_out()

    def wait(self) -> Done:
        (ready, *_), _ = self._ray.wait(list(self._running))
        self._idle.append(self._running.pop(ready))
        self._hand_out()
        try:
            return self._ray.get(ready)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            raise TaskError(
                f"a Ray worker was lost: {error}; the same command goes on from the last whole block"
            ) from error

    def _hand_out(self) -> None:
        while self._waiting and self._idle:
            actor = self._idle.pop()
            self._running[actor.run.remote(self._waiting.popleft())] = actor


@contextmanager
def _ray(workers: int | None, setup: Setup) -> Iterator[Pool]:
    require("--engine ray", "ray", extra="ray")
    import ray

    started = not ray.is_initialized()
    if started:
        # the cluster of RAY_ADDRESS, else one that runs on this machine, else a new one on this machine
        ray.init(log_to_driver=False)
    try:
        processors = int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]  # ray 2.60: partly typed
        size = workers or processors
        if not 0 < size <= processors:
            raise TaskError(f"{size} workers were asked for, and the Ray cluster has {processors} processors")
        shared = ray.put(setup)
        remote = ray.remote(num_cpus=1)(Worker)
        yield _Ray(ray, [remote.remote(shared) for _ in range(size)])
    finally:
        if started:
            ray.shutdown()
