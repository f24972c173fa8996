"""Queries per second of one CPU: the sampler, with all of its checks, beside a plain one on a networkx graph.

The peer is what samplers of such benchmarks are: it draws an answer, walks back from it along the query's tree, and
finds the answers by going through neighbours in Python. It knows the train graph only, checks nothing but that there is
an answer, reads negation as a complement, and may give a query twice.

    python benchmarks/sampler.py --graph FB15K-237-FOLDER [--all]
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import networkx as nx
import numpy as np
from measuring import SHARED, beside, parsed, record, spread, turns

from peirce_queries.graphs.facts import memory
from peirce_queries.graphs.graph import Graph, load_graph
from peirce_queries.languages.types import load_types
from peirce_queries.sampling.lookup import Lookup
from peirce_queries.sampling.sampler import BLOCK, MAX_ANSWERS, TypeSampler

PEER_SECONDS = 1.0
"""What the peer draws for in a turn."""
PUBLISHED = {"2p": 940, "3p": 300, "2i": 3700, "3i": 2600, "pi": 860, "ip": 1600, "2in": 50, "up": 460}
"""Queries per second of a published sampler, measured on one CPU on FB15k-237."""
E = ("e",)
P = ("p", E)
SHAPES: dict[str, tuple[Any, ...]] = {
    "2p": ("p", P),
    "3p": ("p", ("p", P)),
    "2i": ("i", P, P),
    "3i": ("i", P, P, P),
    "pi": ("i", ("p", P), P),
    "ip": ("p", ("i", P, P)),
    "2in": ("i", P, ("n", P)),
    "up": ("p", ("u", P, P)),
}


class Peer:
    """A recursive sampler on a networkx graph."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph = nx.MultiDiGraph()
        for head, relation, tail in graph.added["train"].tolist():
            self.graph.add_edge(head, tail, key=relation)
        self.random = np.random.default_rng(seed)

    def sample(self, shape: tuple[Any, ...]) -> tuple[Any, set[int]] | None:
        """A query and its answers, or None where the walk ends or nothing answers it."""
        query = self._grounded(shape, self._anywhere())
        found = self._answers(query) if query else set()
        return (query, found) if found else None

    def _anywhere(self) -> int:
        nodes = list(self.graph.nodes)
        return nodes[self.random.integers(len(nodes))]

    def _grounded(self, shape: tuple[Any, ...], answer: int) -> tuple[Any, ...] | None:
        kind, *parts = shape
        if kind == "e":
            return ("e", answer)
        if kind == "p":
            edges = list(self.graph.in_edges(answer, keys=True))
            if not edges:
                return None
            head, _, relation = edges[self.random.integers(len(edges))]
            inner = self._grounded(parts[0], head)
            return inner and ("p", relation, inner)
        if kind == "n":
            inner = self._grounded(parts[0], self._anywhere())
            return inner and ("n", inner)
        branches = [
            self._grounded(part, self._anywhere() if kind == "u" and number else answer)
            for number, part in enumerate(parts)
        ]
        return (kind, *branches) if all(branches) and len(set(branches)) == len(branches) else None

    def _answers(self, query: tuple[Any, ...]) -> set[int]:
        kind, *parts = query
        if kind == "e":
            return {parts[0]}
        if kind == "p":
            relation, inner = parts
            return {
                tail
                for head in self._answers(inner)
                for tail, relations in self.graph.adj[head].items()
                if relation in relations
            }
        if kind == "n":
            return set(self.graph.nodes) - self._answers(parts[0])
        found = [self._answers(part) for part in parts]
        return set.union(*found) if kind == "u" else set.intersection(*found)


def counted(draw: Callable[[], int]) -> tuple[Callable[[], None], list[int]]:
    """What draws queries, as a way, and how many it drew each time."""
    counts: list[int] = []
    return lambda: counts.append(draw()), counts


def of_peer(peer: Peer, shape: tuple[Any, ...]) -> Callable[[], int]:
    """Draws queries for so many seconds."""

    def draw() -> int:
        since, count = time.thread_time(), 0
        while not count or time.thread_time() - since < PEER_SECONDS:
            count += peer.sample(shape) is not None
        return count

    return draw


def of_blocks(sampler: TypeSampler) -> Callable[[], int]:
    """Draws a block, another one each time."""
    numbers = count()
    return lambda: len(sampler.block(next(numbers), BLOCK).queries)


def drawn(ways: dict[str, Callable[[], int]], repeats: int) -> dict[str, list[float]]:
    """Seconds a query, turn by turn."""
    made = {name: counted(draw) for name, draw in ways.items()}
    times = turns({name: way for name, (way, _) in made.items()}, repeats)
    return {
        name: [taken / many for taken, many in zip(times[name], counts[1:], strict=True)]
        for name, (_, counts) in made.items()
    }


def main() -> None:
    here = SHARED / "data" / "kg" / "fb15k-237"
    default = str(here) if here.is_dir() else "fb15k237"
    asked = parsed(
        __doc__, 3,
        ("--graph", {"help": "a folder or a data set of pykeen", "default": default}),
        ("--all", {"action": "store_true", "help": "every type of TEGA, without the peer"}),
    )  # fmt: skip
    graph, types = load_graph(asked.graph), load_types()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lookup = Lookup.of(graph)

    def block(name: str, split: str) -> Callable[[], int]:
        return of_blocks(TypeSampler(types[name], lookup, split, 0, MAX_ANSWERS))

    rows: list[dict[str, Any]] = []
    if asked.all:
        for name in types:
            times = drawn({name: block(name, "train")}, asked.repeats)[name]
            rows.append({"type": name, **spread("train, per second", [1 / each for each in times])})
            print(rows[-1], file=sys.stderr)
        record("sampler-types", rows)
        return
    peer = Peer(graph, 0)
    for name, published in PUBLISHED.items():
        splits = {split: block(name, split) for split in ("train", "test")}
        times = drawn({**splits, "peer": of_peer(peer, SHAPES[name])}, asked.repeats)
        row: dict[str, Any] = {"type": name}
        for way, head in (("train", "train, per second"), ("test", "test, per second"), ("peer", "peer")):
            row |= spread(head, [1 / each for each in times[way]])
        row |= {"published": float(published), **beside("time / peer", times["train"], times["peer"])}
        rows.append(row | {"peer / published": row["peer"] / published})
    rows.append(
        {"type": "geometric mean"}
        | {key: _mean([row[key] for row in rows]) for key in rows[0] if key != "type"}
    )
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for row in rows:
        row |= {"graph bytes": float(memory(graph)["index"]), "sampling adds kB": float(most - before)}
    record("sampler", rows)


def _mean(values: list[Any]) -> float:
    return float(np.exp(np.mean(np.log(values))))


if __name__ == "__main__":
    main()
