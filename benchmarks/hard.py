"""Systems that need no training beside one link predictor, on ordinary and on hard queries of a graph.

Ordinary queries are those of `peirce kg sample`, hard ones a random part of `DRAWN` ones of `peirce kg sample --hard`,
with one seed; of the first all inferred answers are ranked, of the others the hard ones. The sampler finds queries with
many answers first, so that a small sample would be unlike the published one. Time is CPU time of one thread, and memory
the most that the process had, the graph included; so a system is run by itself.

    python benchmarks/hard.py SYSTEM GRAPH MODEL [--queries N] [--types NAMES] [--asked KIND] [--samples DIR]

Relations have inverses, as in the data sets of BetaE. MODEL is the vectors that `peirce kg embed --inverses` wrote, or
of `ultraquery` its weights.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import define, field
from measuring import RESULTS, machine

from peirce.compose import build
from peirce.registry import load_spec
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.evaluation import Knowledge, evaluate
from peirce_kg.parts.augmenters.kge_files import read_kge
from peirce_kg.parts.support import Scorer
from peirce_kg.task import model_scorer, overrides_of
from peirce_kg.ultra.answering import UltraQuery
from peirce_kg.ultra.checkpoint import read_ultra
from peirce_queries import Floats
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.graphs.graph import Graph, load_graph, with_inverses
from peirce_queries.languages.types import hard_types
from peirce_queries.sampling.files import read_samples
from peirce_queries.sampling.jobs import describe, run
from peirce_queries.sampling.sampler import QuerySet, missing_links, most_answers, sample
from peirce_training.experiments import read_rows, write_rows

SYSTEMS = ("cqd-beam", "cqd-hybrid", "qto", "fit", "ultraquery")
TYPES = "1p,2p,3p,2i,3i,4p,4i"
DRAWN = {"1p": 5000, "2p": 1000, "3p": 500, "2i": 5000, "3i": 5000, "4p": 100, "4i": 100}
"""How many hard queries of a type are drawn: fewer where they are slow to find."""
ASKED: dict[str, Knowledge] = {"ordinary": "inferred", "hard": "hard"}
"""Which answers are ranked of which queries."""


@define(kw_only=True)
class Row:
    """What a system does on queries of one type.

    mrr: in percent; share: that of the hard ones among the inferred answers, in [0, 1]; seconds: of CPU, a query.
    """

    system: str
    graph: str
    asked: str
    type: str
    queries: int = field(converter=int)
    drawn: int = field(converter=int)
    mrr: float = field(converter=float)
    share: float = field(converter=float)
    seconds: float = field(converter=float)
    mebibytes: int = field(converter=int)
    commit: str


def main() -> None:
    """Measure one system, and put its rows into results/hard-GRAPH.csv, type by type."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("graph")
    parser.add_argument("model", type=Path)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--asked", choices=ASKED, action="append", help="ordinary or hard queries alone")
    parser.add_argument(
        "--samples", type=Path, help="where drawn queries are kept", default=Path("runs/hard")
    )
    asked = parser.parse_args()
    torch.set_num_threads(1)
    plain = load_graph(asked.graph)
    graph = with_inverses(plain)
    scorer = scorer_of(asked.system, plain, graph, asked.model)
    path = RESULTS / f"hard-{graph.name}.csv"
    types = asked.types.split(",")
    for name in asked.asked or ASKED:
        for queries, drawn in asked_of(name, graph, types, asked.queries, asked.samples):
            row = measured(asked.system, scorer, graph, name, queries, drawn)
            print(row, flush=True)
            key = row.system, row.asked, row.type
            others = [each for each in read_rows(path, Row) if (each.system, each.asked, each.type) != key]
            rows = sorted(
                [*others, row],
                key=lambda each: (each.asked, SYSTEMS.index(each.system), list(DRAWN).index(each.type)),
            )
            write_rows(path, rows, [each.name for each in Row.__attrs_attrs__])


def asked_of(
    name: str, graph: Graph, types: list[str], count: int, samples: Path
) -> Iterator[tuple[QuerySet, int]]:
    """The queries of each type, and how many were drawn."""
    if name == "ordinary":
        kinds = [hard_types()[each] for each in types]
        for queries in sample(kinds, graph, "test", count, 0, leave_out=True):
            yield queries, len(queries)
        return
    kinds = [kind for each, kind in hard_types().items() if each in DRAWN]
    wanted = describe(kinds, DRAWN, graph, "test", 0, most_answers("test", hard=True), hard=True)
    run(samples, wanted, graph)
    for queries in read_samples(samples, graph, "test"):
        if queries.type.name in types:
            some = np.random.default_rng(0).permutation(len(queries))[:count]
            yield queries.select(np.sort(some)), len(queries)


def measured(system: str, scorer: Scorer, graph: Graph, name: str, queries: QuerySet, drawn: int) -> Row:
    """What comes of queries of one type."""
    (missing,) = missing_links([queries], graph, "test")
    spent = 0.0

    def timed(template: Template, groundings: Groundings) -> Floats:
        nonlocal spent
        since = time.process_time()
        scores = scorer(template, groundings)
        spent += time.process_time() - since
        return scores

    report = evaluate(system, [queries], timed, entities=graph.entities, missing=[missing])
    cell = report.cells[queries.type.name][ASKED[name]]
    return Row(
        system=system, graph=graph.name, asked=name, type=queries.type.name, queries=cell.queries, drawn=drawn,
        mrr=round(100 * cell.mrr, 2), share=round(report.shares["hard"], 4),
        seconds=round(spent / len(queries), 4), commit=str(machine()["commit"]),
        mebibytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )  # fmt: skip


def scorer_of(system: str, plain: Graph, graph: Graph, model: Path) -> Scorer:
    """What scores a system's answers; UltraQuery adds inverse relations itself, with the same numbers."""
    if system == "ultraquery":
        return UltraQuery(read_ultra(model), plain.index("train")).scorer
    vocabulary = Vocabulary.of(graph)
    changes: dict[str, Any] = {
        "model.dims.unary": read_kge(model)[0].width,
        "model.augmenters": [{"use": "kge", "file": str(model), "frozen": True}],
        **overrides_of(vocabulary),
    }
    if system != "cqd-beam":
        changes["model.heads.0.links"] = str(model)
    return model_scorer(build(load_spec(system, changes)).eval(), vocabulary)


if __name__ == "__main__":
    main()
