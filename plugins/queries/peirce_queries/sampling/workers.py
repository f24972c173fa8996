"""Who samples blocks of queries: this process, processes beside it, or a Ray cluster. All give the same blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from peirce.errors import TaskError
from peirce.workers import ray_cluster, worker_processes
from peirce_queries.sampling.sampler import Block, TypeSampler

ENGINES = ("local", "ray")
Samplers = Mapping[str, TypeSampler]
"""By the name of their types; they share one `Lookup`, and hold no names, as they may have to travel."""
_GOES_ON = "the same command goes on from the last whole block"


class BlockRequest(NamedTuple):
    """A block to be sampled: of which type, its number, and how many queries at most."""

    type: str
    number: int
    limit: int


Done = tuple[BlockRequest, Block]
"""A sampled block, with its request."""


class Worker:
    """Samples blocks, one after another. `of_process` is the worker of a process which `_processes` starts."""

    of_process: Worker

    def __init__(self, samplers: Samplers) -> None:
        self._samplers = samplers

    def run(self, task: BlockRequest) -> Done:
        """Sample a block."""
        return task, self._samplers[task.type].block(task.number, task.limit)


class Pool(NamedTuple):
    """Workers: how many tasks to hand them so that none waits, what queues one, and what waits for the next result."""

    capacity: int
    submit: Callable[[BlockRequest], None]
    wait: Callable[[], Done]


def pool(engine: str, workers: int | None, samplers: Samplers) -> AbstractContextManager[Pool]:
    """Start workers.

    Args:
        engine: `local` for processes of this machine, `ray` for a Ray cluster.
        workers: how many; one, or with Ray as many as the cluster has CPUs, when None.
        samplers: what they sample with, by type.

    Raises:
        TaskError: what the engine needs is not installed.
    """
    if engine == "ray":
        return _ray(workers, samplers)
    return _in_process(samplers) if (workers or 1) == 1 else _processes(workers or 1, samplers)


@contextmanager
def _in_process(samplers: Samplers) -> Iterator[Pool]:
    """A pool of one: this process."""
    worker, tasks = Worker(samplers), deque[BlockRequest]()
    yield Pool(1, tasks.append, lambda: worker.run(tasks.popleft()))


def _start_worker(samplers: Samplers) -> None:
    Worker.of_process = Worker(samplers)


def _run_block(task: BlockRequest) -> Done:
    return Worker.of_process.run(task)


@contextmanager
def _processes(workers: int, samplers: Samplers) -> Iterator[Pool]:
    """Processes of this machine."""
    from concurrent.futures import FIRST_COMPLETED, Future, wait

    futures = set[Future[Done]]()

    def first() -> Done:
        future = next(iter(wait(futures, return_when=FIRST_COMPLETED).done))
        futures.remove(future)
        return future.result()

    with worker_processes(workers, _start_worker, samplers) as executor:
        yield Pool(2 * workers, lambda task: futures.add(executor.submit(_run_block, task)), first)


@contextmanager
def _ray(workers: int | None, samplers: Samplers) -> Iterator[Pool]:
    """Actors of a Ray cluster, each with one task at a time; the others wait here."""
    with ray_cluster("--engine ray", workers, extra="peirce-queries[ray]") as size:
        import ray
        from ray.util import ActorPool

        shared = ray.put(samplers)
        remote = ray.remote(num_cpus=1)(Worker)
        actors = ActorPool([remote.remote(shared) for _ in range(size)])

        def first() -> Done:
            try:
                return actors.get_next_unordered()
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                raise TaskError(f"a Ray worker was lost: {error}; {_GOES_ON}") from error

        def submit(task: BlockRequest) -> None:
            actors.submit(lambda actor, each: actor.run.remote(each), task)

        yield Pool(2 * size, submit, first)
