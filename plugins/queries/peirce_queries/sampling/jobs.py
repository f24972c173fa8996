"""Samples a folder of queries with any number of workers, and goes on where an earlier run was killed.

Workers sample blocks; each is kept in `.blocks` as soon as it is done. The blocks of a type are taken in order, whoever
made them, until there are enough new queries; then they become the type's file. What is under its final name is whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from attrs import frozen

from peirce.errors import TaskError, check_known
from peirce.files import clear_leftovers, explain_disk_errors, hold_lock, replace_file, write_whole
from peirce_queries.engine.template import Template
from peirce_queries.graphs.graph import Graph, Ints, Split
from peirce_queries.languages.types import QueryType
from peirce_queries.sampling import files
from peirce_queries.sampling.files import DESCRIPTION, Description, TypeRequest, type_file
from peirce_queries.sampling.lookup import Lookup
from peirce_queries.sampling.sampler import BLOCK, Block, Collector, QuerySet, TypeSampler, check_split
from peirce_queries.sampling.workers import ENGINES, BlockRequest, Pool, pool

TABLE_9 = {
    "fb15k": (273_710, 547_420, 8_000),
    "fb15k237": (149_689, 299_378, 5_000),
    "nell995": (107_982, 215_964, 4_000),
}
"""By graph: training queries of the type 1p, of any other type, and validation or test queries of each type."""
MOST_EVALUATED = 5_000
BLOCKS = ".blocks"
"""The folder of the blocks that are not in a type's file yet."""


@frozen(eq=False)
class Sampled:
    """The sampled queries of one type, and the request.

    answers: int64 [n], how many answers each query has on the graph of the split; seconds: of CPU time, None where an
    earlier run finished the type.
    """

    request: TypeRequest
    answers: Ints
    seconds: float | None

    @property
    def rate(self) -> float | None:
        """Queries per second of one CPU."""
        return len(self.answers) / self.seconds if self.seconds else None

    def histogram(self) -> dict[str, int]:
        """How many queries have 1, 2, 3 to 4, 5 to 8, ... answers."""
        bins: dict[str, int] = {}
        low = high = 1
        while low <= max(self.answers, default=0):
            name = str(low) if low == high else f"{low}-{high}"
            bins[name] = int(((self.answers >= low) & (self.answers <= high)).sum())
            low, high = high + 1, 2 * high
        return bins


Watch = Callable[[str, int, float], None]
"""Told after each block: the type, how many queries it has, and the seconds of CPU time that they took."""


def describe(
    types: Sequence[QueryType],
    counts: dict[str, int],
    graph: Graph,
    split: Split,
    seed: int,
    max_answers: int,
    *,
    hard: bool = False,
) -> Description:
    """The description of a request; see `sampler.sample`. counts: how many queries, by the type's name."""
    check_split(graph, split)
    requests = tuple(TypeRequest(kind, counts[kind.name]) for kind in types)
    return Description(graph.name, files.fingerprint(graph), split, seed, max_answers, requests, hard=hard)


def quantities(types: Sequence[QueryType], graph: Graph, split: Split) -> dict[str, int]:
    """How many queries of each type to sample, by the type's name.

    Table 9 for the graphs in it, however their names are spelt. Elsewhere its rule: every one-hop query of the training
    graph and twice as many of each other type; to evaluate, as many as there are one-hop queries, at most 5,000.

    Raises:
        TaskError: the training graph has no triples to count by.
    """
    single, several, evaluated = TABLE_9.get(re.sub("[^a-z0-9]", "", graph.name.lower()), (0, 0, 0))
    if not single:
        single = len(np.unique(graph.added["train"][:, :2], axis=0))
        several, evaluated = 2 * single, min(single, MOST_EVALUATED)
    if not single:
        raise TaskError(
            f"the train split of {graph.name!r} has no triples, by which queries are counted; give --count"
        )
    if split != "train":
        return {kind.name: evaluated for kind in types}
    return {kind.name: single if len(kind.query.atoms) == 1 else several for kind in types}


def run(
    directory: Path,
    wanted: Description,
    graph: Graph,
    engine: str = "local",
    workers: int | None = None,
    watch: Watch = lambda name, count, seconds: None,
    *,
    overwrite: bool = False,
) -> list[Sampled]:
    """Sample what is not there yet into `directory/SPLIT`; what an earlier run of the same left is completed.

    Args:
        directory, wanted, graph: where to, and what is asked for of which graph.
        engine, workers: see `workers.pool`.
        watch: called with each block.
        overwrite: whether to remove queries of another request.

    Raises:
        TaskError: the folder holds other files; a worker died; nothing can be sampled.
        BusyError: another process samples into the folder.
        WriteError: the disk takes no more.
    """
    check_known("engine", engine, ENGINES, TaskError)
    folder = directory / wanted.split
    for place in (directory, folder):
        if place.exists() and not place.is_dir():
            raise TaskError(f"{place} is a file, where a folder of queries would go; give another folder")
    kept = "the queries sampled before are kept, and the same command goes on from there"
    with explain_disk_errors(f"queries in {folder}", kept), hold_lock(folder, folder=False):
        _prepare_folder(folder, wanted, overwrite=overwrite)
        blocks = folder / BLOCKS
        blocks.mkdir(exist_ok=True)
        missing = [request for request in wanted.types if not type_file(folder, request.name).exists()]
        hard = wanted.hard and wanted.split != "train"
        works = [_Work(request, wanted.split, blocks, hard=hard) for request in missing]
        seconds: dict[str, float] = {}
        if works:
            lookup, which = Lookup.of(graph), (wanted.split, wanted.seed, wanted.max_answers)
            samplers = {
                work.request.name: TypeSampler(work.kind, lookup, *which, hard=wanted.hard) for work in works
            }
            with pool(engine, workers, samplers) as running:
                for work in _finish_types(works, running, watch):
                    with replace_file(type_file(folder, work.request.name)) as fresh:
                        files.write_type(fresh, work.kind, wanted, graph, work.sets())
                    work.drop()
                    seconds[work.request.name] = work.seconds
        _remove_blocks(blocks)
        return [
            Sampled(
                request, files.answer_counts(folder, request.name, wanted.split), seconds.get(request.name)
            )
            for request in wanted.types
        ]


def _prepare_folder(folder: Path, wanted: Description, *, overwrite: bool) -> None:
    """Create the folder, or check that an existing one is for the same request or holds no queries yet."""
    clear_leftovers(folder)
    if (folder / DESCRIPTION).exists():
        there, blocks = Description.read(folder), folder / BLOCKS
        made = [path for request in there.types if (path := type_file(folder, request.name)).exists()]
        if there != wanted and overwrite:
            # these and no others, since somebody may have put files of their own beside them
            _remove_blocks(blocks)
            for path in made:
                path.unlink()
        elif there != wanted and (made or any(blocks.glob("*.block"))):
            names = ("graph", "seed", "max_answers", "types", "hard")
            differ = [name for name in names if getattr(there, name) != getattr(wanted, name)]
            fields = " and ".join(differ).replace("types", "types or counts") or "triples"
            raise TaskError(
                f"{folder} holds queries sampled with other {fields}; give another folder, or --overwrite "
                "to replace them"
            )
    elif folder.exists() and any(folder.iterdir()):
        raise TaskError(f"{folder} holds other files than sampled queries; give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / DESCRIPTION, wanted.to_json())


def _remove_blocks(blocks: Path) -> None:
    """Remove the blocks, and their folder if nothing else is in it."""
    for path in blocks.glob("*.block"):
        path.unlink()
    clear_leftovers(blocks)
    with suppress(OSError):
        blocks.rmdir()


def _finish_types(works: Sequence[_Work], running: Pool, watch: Watch) -> Iterator[_Work]:
    """The types, each when it has its queries."""
    under_way, waiting = 0, list(works)
    while waiting:
        for work in waiting:
            for task in work.tasks(running.capacity - under_way):
                running.submit(task)
                under_way += 1
        for work in [work for work in waiting if work.advance(watch)]:
            waiting.remove(work)
            yield work
        if waiting and under_way:
            task, block = running.wait()
            under_way -= 1
            next(work for work in works if work.request.name == task.type).keep(task.number, block)


class _Work:
    """One type: the blocks that it has, and the queries that are new in each."""

    def __init__(self, request: TypeRequest, split: Split, blocks: Path, *, hard: bool) -> None:
        self.request, self.split, self.kind, self.seconds = request, split, request.kind, 0.0
        self._blocks = blocks
        self._rows: list[Ints] = []
        self._collector = Collector(Template.of(self.kind.query), request.count, balanced=hard)
        self._submitted: set[int] = set()

    def tasks(self, most: int) -> Iterator[BlockRequest]:
        """Blocks that will be needed, if all that is new in them is, and that nobody has begun."""
        missing, first = self.request.count - len(self._collector), len(self._rows)
        for number in range(first, first + -(-missing // BLOCK)):
            if most <= 0 or self._collector.complete:
                return
            if number not in self._submitted and not self._path(number).exists():
                self._submitted.add(number)
                most -= 1
                yield BlockRequest(self.request.name, number, self._collector.limit(number))

    def keep(self, number: int, block: Block) -> None:
        """Keep a block."""
        if not self._collector.complete:
            with replace_file(self._path(number)) as fresh:
                files.write_block(fresh, block)

    def advance(self, watch: Watch) -> bool:
        """Take the blocks that are next in order; say whether the type has all of its queries."""
        while not self._collector.complete and self._path(len(self._rows)).exists():
            block = self._block(len(self._rows))
            self._rows.append(self._collector.add(block))
            self.seconds += block.seconds
            watch(self.request.name, len(self._collector), self.seconds)
        return self._collector.complete

    def sets(self) -> Iterator[QuerySet]:
        """The queries, block by block."""
        return (self._block(number).queries.select(rows) for number, rows in enumerate(self._rows))

    def drop(self) -> None:
        """Remove the blocks."""
        for number in range(len(self._rows)):
            self._path(number).unlink()

    def _block(self, number: int) -> Block:
        return files.read_block(self._path(number), self.kind, self.split)

    def _path(self, number: int) -> Path:
        return self._blocks / f"{type_file(self._blocks, self.request.name).stem}-{number:06}.block"
