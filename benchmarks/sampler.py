"""Queries per second of one processor: the sampler, with all of its checks, beside a plain one on a networkx graph.

The peer is what samplers of such benchmarks are: it draws an answer, walks back from it along the query's tree, and
finds the answers by going through neighbours in Python. It knows the train graph only, checks nothing but that there is
an answer, reads negation as a complement, and may give a query twice.

    python benchmarks/sampler.py --graph FB15K-237-FOLDER [--count N] [--all | --engine]

With --engine the peer is the sampler itself with the exact engine in the place of `worlds`: the same queries, whose
answers on each graph, and without each of their parts, are asked for one after another.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np
from attrs import evolve
from measuring import SHARED, record
from peirce_kg.engine.answers import Answers, Groundings, answers
from peirce_kg.engine.template import Slot
from peirce_kg.graphs.facts import memory
from peirce_kg.graphs.graph import SPLITS, Graph, Split, load_graph
from peirce_kg.queries.types import QueryType, load_types
from peirce_kg.sampling.lookup import Lookup
from peirce_kg.sampling.sampler import BLOCK, MAX_ANSWERS, QuerySet, TypeSampler

PUBLISHED = {"2p": 940, "3p": 300, "2i": 3700, "3i": 2600, "pi": 860, "ip": 1600, "2in": 50, "up": 460}
"""Queries per second of a published sampler, measured on one processor on FB15k-237."""
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


class EngineSampler(TypeSampler):
    """The sampler by the exact engine, which answers a variant of the query after the other for those still sound."""

    def __init__(self, kind: QueryType, graph: Graph, lookup: Lookup, split: Split) -> None:
        super().__init__(kind, lookup, split, 0, MAX_ANSWERS)
        self.graph = graph

    def _sound(self, proposals: Groundings) -> QuerySet:
        entities, conjunctions = self.graph.entities, self.template.conjunctions
        found: dict[Split, Answers] = {}

        def keep(rows: Any) -> None:
            nonlocal proposals
            proposals = proposals[rows]
            found.update({split: each.select(rows) for split, each in found.items()})

        def ask(split: Split, *variant: tuple[Slot, ...]) -> Answers:
            template = evolve(self.template, conjunctions=variant or conjunctions)
            return answers(template, proposals, self.graph.index(split))

        found[self.split] = ask(self.split)
        counts = found[self.split].counts
        keep(np.flatnonzero((counts > 0) & (counts <= self.max_answers)))
        if self.level:
            before = SPLITS[self.level - 1]
            found[before] = ask(before)
            keep(np.flatnonzero(found[self.split].minus(found[before], entities).counts))
        for negated in self.template.negated:
            wider = ask(self.split, *(tuple(s for s in slots if s != negated) for slots in conjunctions))
            keep(np.flatnonzero(wider.minus(found[self.split], entities).counts))
        for number in range(len(conjunctions) if len(conjunctions) > 1 else 0):
            others = ask(self.split, *(c for i, c in enumerate(conjunctions) if i != number))
            keep(np.flatnonzero(found[self.split].minus(others, entities).counts))
        for split in SPLITS:
            if split not in found:
                found[split] = ask(split)
        ordered = {split: found[split] for split in SPLITS}
        return QuerySet(self.kind, self.split, self.template, proposals, ordered)


def against_engine(graph: Graph, lookup: Lookup, names: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Seconds of both, type by type, for a block of the test split; both must find the same queries."""
    rows = []
    for name in names:
        kind = load_types()[name]
        samplers = (
            TypeSampler(kind, lookup, "test", 0, MAX_ANSWERS),
            EngineSampler(kind, graph, lookup, "test"),
        )
        seconds, blocks = [], []
        for sampler in samplers:
            sampler.block(0, 64)  # what is made when first asked for
            since = time.thread_time()
            blocks.append(sampler.block(0, count).queries)
            seconds.append(time.thread_time() - since)
        ours, engines = blocks
        assert np.array_equal(ours.groundings.constants, engines.groundings.constants)
        assert all(np.array_equal(ours.answers[s].entities, engines.answers[s].entities) for s in SPLITS)
        figures = {"queries": len(ours), "worlds, s": seconds[0], "engine, s": seconds[1]}
        rows.append({"type": name, **figures, "engine / worlds": seconds[1] / seconds[0]})
        print(rows[-1], file=sys.stderr)
    return rows


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
    options.add_argument(
        "--engine", nargs="*", metavar="TYPE", help="the exact engine as peer, of some types or all"
    )
    options.add_argument("--all", action="store_true", help="every type of TEGA, without the peer")
    asked = options.parse_args()
    graph, types = load_graph(asked.graph), load_types()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lookup = Lookup.of(graph)
    rows: list[dict[str, Any]]
    if asked.engine is not None:
        rows = against_engine(graph, lookup, asked.engine or list(types), asked.count)
        rows.append(
            {"type": "geometric mean"} | {k: _mean([r[k] for r in rows]) for k in rows[0] if k != "type"}
        )
        record("sampler-engine", rows)
        return
    if asked.all:
        rows = []
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
        row["graph bytes"], row["sampling adds kB"] = memory(graph).index, most - before
    record("sampler", rows)


def _mean(values: list[Any]) -> float:
    return float(np.exp(np.mean(np.log(values))))


if __name__ == "__main__":
    main()
