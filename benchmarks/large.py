"""A graph of 100 million triples: its index, exact answers and sampling, each in a process of its own.

Entities and relations are drawn by Zipf's law: some have hundreds of thousands of edges. Seconds are on the clock.

    python benchmarks/large.py --folder SCRATCH [--triples 100e6]
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from measuring import parsed, record
from numpy.typing import NDArray

from peirce_queries.engine.answers import answers
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.graphs.graph import from_ids, load_graph
from peirce_queries.languages.types import load_types
from peirce_queries.sampling.lookup import Lookup
from peirce_queries.sampling.sampler import MAX_ANSWERS, TypeSampler
from peirce_queries.sampling.workers import BlockRequest, pool

T = TypeVar("T")
RELATIONS, STEEPNESS = 400, 0.8
TYPES = ("2p", "2i", "3in")
QUERIES, BLOCKS = 200, 8


def drawn(size: int, many: int, random: np.random.Generator) -> NDArray[np.int32]:
    """Numbers below `many`, the k-th of some order as often as k ** -STEEPNESS."""
    shares = np.cumsum(np.arange(1, many + 1) ** -STEEPNESS)
    places = np.searchsorted(shares, random.random(size) * shares[-1])
    return random.permutation(many).astype(np.int32)[places]


def made(folder: Path, triples: int) -> dict[str, Any]:
    """Draw a graph and write its index."""
    random, entities = np.random.default_rng(0), triples // 20
    columns = [drawn(triples, many, random) for many in (entities, RELATIONS, entities)]
    rows = np.stack(columns, axis=1)
    del columns
    start = time.perf_counter()
    names = ([f"{kind}{i}" for i in range(many)] for kind, many in (("e", entities), ("r", RELATIONS)))
    graph = from_ids("zipf", *names, {"train": rows, "valid": rows[:0], "test": rows[:0]})
    indexed = time.perf_counter()
    folder.mkdir()
    graph.write(folder)
    count, size = len(graph.index("train")), sum(file.stat().st_size for file in folder.iterdir())
    return {
        "triples": float(count), "entities": float(entities), "seconds": indexed - start,
        "writing, s": time.perf_counter() - indexed, "bytes a triple": graph.index("train").nbytes / count,
        "bytes a triple in files": size / count,
    }  # fmt: skip


def opened(folder: Path) -> dict[str, Any]:
    """Open it."""
    start = time.perf_counter()
    graph = load_graph(str(folder))
    return {"seconds": time.perf_counter() - start, "triples": float(len(graph.index("train")))}


def sampled(folder: Path, name: str, blocks: int) -> dict[str, Any]:
    """Sample queries of a type, and keep them in a file."""
    sampler = TypeSampler(load_types()[name], Lookup.of(load_graph(str(folder))), "train", 0, MAX_ANSWERS)
    start = time.perf_counter()
    sampler.block(0, 1)  # makes the lists that walks look up
    ready = time.perf_counter()
    queries = sampler.block(1, blocks * QUERIES).queries
    own = queries.groundings
    np.savez(folder / f"{name}.npz", relations=own.relations, constants=own.constants)
    return {
        "queries": float(len(queries)), "lists, s": ready - start,
        "queries a second": len(queries) / (time.perf_counter() - ready),
    }  # fmt: skip


def answered(folder: Path, name: str) -> dict[str, Any]:
    """Answer the queries of such a file."""
    graph, template = load_graph(str(folder)), load_types()[name].query
    with np.load(folder / f"{name}.npz") as file:
        groundings = Groundings(file["relations"], file["constants"])
    start = time.perf_counter()
    found = answers(Template.of(template), groundings, graph.index("train"))
    seconds = time.perf_counter() - start
    return {"queries": float(len(groundings)), "queries a second": len(groundings) / seconds,
            "answers": float(found.counts.mean())}  # fmt: skip


def shared(folder: Path, workers: int) -> dict[str, Any]:
    """Sample blocks through Ray with so many workers, after one each that is not counted."""
    lookup, kinds = Lookup.of(load_graph(str(folder))), load_types()
    samplers = {name: TypeSampler(kinds[name], lookup, "train", 0, MAX_ANSWERS) for name in TYPES}
    start = time.perf_counter()
    with pool("ray", workers, samplers) as own:
        for number in range(workers):
            own.submit(BlockRequest(TYPES[0], number, 1))
        for _ in range(workers):
            own.wait()
        ready, count = time.perf_counter(), 0
        for number in range(BLOCKS):
            own.submit(BlockRequest(TYPES[0], workers + number, QUERIES))
        for _ in range(BLOCKS):
            count += len(own.wait()[1].queries)
        seconds = time.perf_counter() - ready
    return {"queries": float(count), "lists, s": ready - start, "queries a second": count / seconds}


def alone(step: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    """What a step gives in a process of its own, and the GiB that it took at most, mapped pages included."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        found = process.submit(step, *arguments).result()
        return found, process.submit(_peak).result() / 2**20


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    asked = parsed(
        __doc__, 1,
        ("--folder", {"required": True, "type": Path, "help": "where the graph goes; 4 GB, for it to be removed"}),
        ("--triples", {"type": float, "default": 100e6, "help": "drawn triples (default 100e6)"}),
    )  # fmt: skip
    place, rows = asked.folder / "index", list[dict[str, Any]]()
    steps: list[tuple[str, Callable[..., dict[str, Any]], tuple[Any, ...]]] = [
        ("index", made, (place, int(asked.triples))),
        ("open", opened, (place,)),
        *((f"sample {name}", sampled, (place, name, 1)) for name in TYPES),
        *((f"answer {name}", answered, (place, name)) for name in TYPES),
        *((f"sample {TYPES[0]}, Ray, workers: {count}", shared, (place, count)) for count in (1, 2)),
    ]
    for what, step, arguments in steps:
        found, peak = alone(step, *arguments)
        rows.append({"what": what, **found, "peak GiB": peak})
        print(rows[-1], flush=True)
    record("large", rows)


if __name__ == "__main__":
    main()
