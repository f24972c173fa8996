"""Queries per second of one CPU: the sampler, with all of its checks, beside a plain one on a networkx graph.

The peer is what samplers of such benchmarks are: it draws an answer, walks back from it along the query's tree, and
finds the answers by going through neighbours in Python. It knows the train graph only, checks nothing but that there is
an answer, reads negation as a complement, and may give a query twice.

    python benchmarks/sampler.py --graph FB15K-237-FOLDER [--count N] [--all]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from typing import Any

import networkx as nx
import numpy as np
from measuring import SHARED, record
from peirce_kg.graphs.facts import memory
from peirce_kg.graphs.graph import Graph, load_graph
from peirce_kg.queries.types import load_types
from peirce_kg.sampling.lookup import Lookup
from peirce_kg.sampling.sampler import BLOCK, MAX_ANSWERS, TypeSampler

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


def peer_rate(peer: Peer, shape: tuple[Any, ...], seconds: float) -> float:
    """Queries per second."""
    since, count = time.thread_time(), 0
    while time.thread_time() - since < seconds:
        count += peer.sample(shape) is not None
    return count / (time.thread_time() - since)


def rate(sampler: TypeSampler, count: int) -> float:
    """Queries per second."""
    sampler.block(0, 64)  # what is made when first asked for
    since, found, numbers = time.thread_time(), 0, iter(range(1, count))
    last = False
    while found < count and not last:
        block = sampler.block(next(numbers), count - found)
        found, last = found + len(block.queries), block.last
    return found / (time.thread_time() - since)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    here = SHARED / "data" / "kg" / "fb15k-237"
    default = str(here) if here.is_dir() else "fb15k237"
    options.add_argument("--graph", help="a folder or a data set of pykeen", default=default)
    options.add_argument("--count", type=int, default=2 * BLOCK, help="queries of each type")
    options.add_argument("--all", action="store_true", help="every type of TEGA, without the peer")
    asked = options.parse_args()
    graph, types = load_graph(asked.graph), load_types()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lookup = Lookup.of(graph)
    if asked.all:
        rows: list[dict[str, Any]] = []
        for name, kind in types.items():
            sampler = TypeSampler(kind, lookup, "train", 0, MAX_ANSWERS)
            rows.append({"type": name, "train, per second": rate(sampler, asked.count)})
            print(rows[-1], file=sys.stderr)
        record("sampler-types", rows)
        return
    ours = {}
    for name in PUBLISHED:
        each = [
            rate(TypeSampler(types[name], lookup, s, 0, MAX_ANSWERS), asked.count) for s in ("train", "test")
        ]
        ours[name] = each
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peer = Peer(graph, 0)
    rows = []
    for name, published in PUBLISHED.items():
        of_peer = peer_rate(peer, SHAPES[name], 5)
        train, test = ours[name]
        rows.append(
            {
                "type": name,
                "train, per second": train,
                "test, per second": test,
                "peer": of_peer,
                "published": float(published),
                "train / peer": train / of_peer,
                "train / published": train / published,
                "test / published": test / published,
                "peer / published": of_peer / published,
            }
        )
    rows.append(
        {"type": "geometric mean"}
        | {key: _mean([row[key] for row in rows]) for key in rows[0] if key != "type"}
    )
    for row in rows:
        row["graph bytes"], row["sampling adds kB"] = memory(graph)["index"], most - before
    record("sampler", rows)


def _mean(values: list[Any]) -> float:
    return float(np.exp(np.mean(np.log(values))))


if __name__ == "__main__":
    main()
