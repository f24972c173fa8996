"""The exact engine: queries per second and type on FB15k-237 and WN18RR, and the memory of their graphs.

The queries are sampled from the train graph: each has 1 to 100 answers there and no vacuous part. They are answered on
the test graph, as a batch that holds the sampled ones five times over. Times are CPU times, of one thread.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import CLOCKS, SHARED, record, seconds
from peirce.errors import TaskError
from peirce_kg.engine.answers import answers
from peirce_kg.engine.template import Groundings
from peirce_kg.graphs.facts import memory
from peirce_kg.graphs.graph import Graph, load_graph
from peirce_kg.queries.types import QueryType, load_types
from peirce_kg.sampling.sampler import sample

GRAPHS = ("fb15k-237", "wn18rr")
COPIES = 5


def speed(kind: QueryType, graph: Graph, count: int, repeats: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "graph": graph.name,
        "type": kind.name,
        "queries": 0,
        "answers": 0.0,
        "per second": None,
    }
    try:
        (queries,) = sample([kind], graph, "train", count, seed=0)
    except TaskError:
        return row  # the graph has no query of this type
    index, batch = graph.index("test"), Groundings.joined([queries.groundings] * COPIES)
    times = seconds({kind.name: lambda: answers(queries.template, batch, index)}, repeats, CLOCKS["cpu"])
    mean = float(np.mean(queries.answers["test"].counts))
    return {**row, "queries": len(queries), "answers": mean, "per second": len(batch) / times[kind.name]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    default = SHARED / "data" / "kg"
    parser.add_argument("--data", type=Path, default=default, help="folder of the graphs' folders")
    parser.add_argument("--types", nargs="*", default=[], help="types to measure; all where none is named")
    parser.add_argument("--count", type=int, default=200, help="queries of each type")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    if not args.data.is_dir():
        print(f"no folder {args.data}; give one with {' and '.join(GRAPHS)} by --data")
        sys.exit(args.data != default)  # whoever runs all benchmarks need not have the graphs
    speeds, sizes = [], []
    for name in GRAPHS:
        start = time.process_time()
        graph = load_graph(str(args.data / name))
        read, size = time.process_time() - start, memory(graph)
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
                speeds.append(speed(kind, graph, args.count, args.repeats))
                print(speeds[-1], flush=True)
    record("engine", speeds)
    record("graphs", sizes)


if __name__ == "__main__":
    main()
