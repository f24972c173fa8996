"""The exact engine: queries per second and type on FB15k-237 and WN18RR, and the memory of their graphs.

The queries are sampled from the train graph: each has 1 to 100 answers there and no vacuous part. They are answered on
the test graph, as a batch that holds the sampled ones five times over. Beside the engine stands a plain one, which
joins Python's sets query by query and gives the same answers.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measuring import SHARED, beside, parsed, record, spread, turns

from peirce.errors import TaskError
from peirce_queries.engine.answers import answers
from peirce_queries.engine.template import Groundings, Slot, Template
from peirce_queries.graphs.facts import memory
from peirce_queries.graphs.graph import Graph, load_graph
from peirce_queries.languages.language import FREE, Variable
from peirce_queries.languages.types import QueryType, load_types
from peirce_queries.sampling.sampler import sample

PLAIN_SECONDS = 0.2
"""About what the plain engine may take in a turn: it answers as many of the queries."""
GRAPHS = ("fb15k-237", "wn18rr")
COPIES = 5


class Plain:
    """A query at a time: each atom in turn is joined with what is known, and what no atom asks for again is dropped."""

    def __init__(self, graph: Graph) -> None:
        self.tails: dict[tuple[int, int], set[int]] = defaultdict(set)
        self.heads: dict[tuple[int, int], set[int]] = defaultdict(set)
        self.pairs: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for head, relation, tail in np.stack(graph.index("test").triples(), 1).tolist():
            self.tails[relation, head].add(tail)
            self.heads[relation, tail].add(head)
            self.pairs[relation].add((head, tail))

    def answers(self, template: Template, relations: Sequence[int], constants: Sequence[int]) -> set[int]:
        """The answers of one grounding.

        Raises:
            LookupError: a variable stands in negated atoms alone, and would range over all entities.
        """
        found: set[int] = set()
        for slots in template.conjunctions:
            found |= self._conjunction(slots, relations, constants)
        return found

    def _conjunction(
        self, slots: Sequence[Slot], relations: Sequence[int], constants: Sequence[int]
    ) -> set[int]:
        known: list[Variable] = []
        rows: set[tuple[int, ...]] = {()}
        left = sorted(slots, key=lambda slot: not slot.positive)
        while left:
            ready = [
                s
                for s in left
                if (s.positive and not known) or len(s.variables - set(known)) < len(s.variables)
            ]
            slot = min(ready or left, key=lambda s: (not s.positive, len(s.variables - set(known))))
            left.remove(slot)
            new = sorted(slot.variables - set(known), key=str)
            if new and not slot.positive:
                raise LookupError
            relation, joined = relations[slot.relation], set()
            for row in rows:
                own = dict(zip(known, row, strict=True))
                head, tail = (
                    constants[e] if isinstance(e, int) else own.get(e) for e in (slot.head, slot.tail)
                )
                for one, other in self._pairs(relation, head, tail, slot.positive):
                    both = own | {
                        e: v for e, v in ((slot.head, one), (slot.tail, other)) if isinstance(e, Variable)
                    }
                    joined.add(tuple(both[v] for v in (*known, *new)))
            known += new
            kept = [i for i, v in enumerate(known) if v == FREE or any(v in s.variables for s in left)]
            rows, known = {tuple(row[i] for i in kept) for row in joined}, [known[i] for i in kept]
        return {value for (value,) in rows}

    def _pairs(
        self, relation: int, head: int | None, tail: int | None, positive: bool
    ) -> set[tuple[int, int]]:
        if head is not None and tail is not None:
            return {(head, tail)} if ((head, tail) in self.pairs[relation]) == positive else set()
        if head is not None:
            return {(head, each) for each in self.tails.get((relation, head), ())}
        if tail is not None:
            return {(each, tail) for each in self.heads.get((relation, tail), ())}
        return self.pairs[relation]


def speed(kind: QueryType, graph: Graph, plain: Plain, count: int, repeats: int) -> dict[str, Any]:
    row: dict[str, Any] = {"graph": graph.name, "type": kind.name, "per second": None}
    try:
        (queries,) = sample([kind], graph, "train", count, seed=0)
    except TaskError:
        return row  # the graph has no query of this type
    index, batch = graph.index("test"), Groundings.concatenate([queries.groundings] * COPIES)
    template, own = queries.template, queries.groundings
    ways = {"engine": lambda: answers(template, batch, index)}
    many = 0
    try:
        start = time.process_time()
        while many < len(own) and time.process_time() - start < PLAIN_SECONDS:
            found = plain.answers(template, own.relations[many].tolist(), own.constants[many].tolist())
            assert sorted(found) == queries.answers["test"][many].tolist(), f"{kind.name}: other answers"
            many += 1
        pairs = [(own.relations[i].tolist(), own.constants[i].tolist()) for i in range(many)]
        ways["plain"] = lambda: [plain.answers(template, *pair) for pair in pairs]
    except LookupError:
        pass
    times = turns(ways, repeats)
    engine = [each / len(batch) for each in times["engine"]]
    row |= spread("per second", [1 / each for each in engine])
    row["answers"] = float(np.mean(queries.answers["test"].counts))
    return row | (
        beside("time / plain", engine, [each / many for each in times["plain"]]) if "plain" in times else {}
    )


def main() -> None:
    default = SHARED / "data" / "kg"
    args = parsed(
        __doc__, 3,
        ("--data", {"type": Path, "default": default, "help": "folder of the graphs' folders"}),
        ("--types", {"nargs": "*", "default": [], "help": "types to measure; all where none is named"}),
        ("--count", {"type": int, "default": 200, "help": "queries of each type"}),
    )  # fmt: skip
    if not args.data.is_dir():
        print(f"no folder {args.data}; give one with {' and '.join(GRAPHS)} by --data")
        sys.exit(args.data != default)  # whoever runs all benchmarks need not have the graphs
    speeds, sizes = [], []
    for name in GRAPHS:
        start = time.process_time()
        graph = load_graph(str(args.data / name))
        read, size = time.process_time() - start, memory(graph)
        plain = Plain(graph)
        sizes.append(
            {
                "graph": name,
                "triples": size["raw"] // 12,
                "index, bytes": size["index"],
                "index / raw int32": size["ratio"],
                "names, bytes": size["names"],
                "reading, s": read,
            }
        )
        for kind in load_types().values():
            if kind.name in args.types or not args.types:
                speeds.append(speed(kind, graph, plain, args.count, args.repeats))
                print(name, kind.name, flush=True)
    record("engine", speeds)
    record("graphs", sizes)


if __name__ == "__main__":
    main()
