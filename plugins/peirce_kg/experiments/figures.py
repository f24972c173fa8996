"""The figures of a table: means of what models were measured to do, their parameters, or the sizes of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from attrs import evolve, frozen
from peirce.compose import build
from peirce.registry import Registry, default_registry, load_spec

from peirce_kg.encoding.literal_inputs import why_unsupported
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.engine.template import Template
from peirce_kg.experiments.running import Plan, Result, jobs, key
from peirce_kg.experiments.tables import Cell, Row
from peirce_kg.graphs.graph import SPLITS, load_graph
from peirce_kg.parts.systems.literals import Executor
from peirce_kg.queries.types import QueryType, load_types, select
from peirce_kg.task import overrides_of


@frozen
class Figure:
    """One figure of one row: the mean, the lowest and the highest over seeds, and the paper's.

    Args:
        row: the label of the row.
        column: the head of the column.
        seeds: how many seeds there are; 1 of what does not depend on them.
        mean: their mean; None where nothing was measured.
        low: the lowest.
        high: the highest.
        paper: what the paper printed; None where it printed nothing.
        types: how many of the types it is a mean over, where the model does not support some; else empty.
    """

    row: str
    column: str
    seeds: int
    mean: float | None
    low: float | None
    high: float | None
    paper: float | None
    types: str = ""


def figures_of(plan: Plan, results: Sequence[Result], paper_graph: str) -> dict[str, list[Figure]]:
    """The figures of a table by the label of their row, in the order of the columns.

    Args:
        plan: the table, and what was done for it.
        results: what came out, where models were trained; MRR becomes percent.
        paper_graph: the graph of the paper whose figures stand beside.
    """
    values = {"mrr": _ranked, "parameters": _sizes, "graph": _statistics}[plan.table.measure]
    found: dict[str, list[Figure]] = {}
    for row, columns in zip(plan.table.rows, values(plan, results), strict=True):
        printed = row.paper.get(paper_graph, (None,) * len(columns))
        found[row.label] = [
            Figure(
                row.label,
                column,
                len(seeds),
                float(np.mean(seeds)) if seeds else None,
                min(seeds, default=None),
                max(seeds, default=None),
                paper,
                types,
            )
            for column, seeds, paper, types in zip(
                plan.table.columns, columns, printed, _spoken(plan, row), strict=True
            )
        ]
    return found


def _ranked(plan: Plan, results: Sequence[Result]) -> Iterator[list[list[float]]]:
    """Of each row and cell: MRR in percent, a value for each seed that is done."""
    runs: dict[str, list[str]] = {}
    for job in jobs(plan):
        runs.setdefault(job.row.label, []).append(job.run)
    for row in plan.table.rows:
        yield [_means(plan, results, cell, runs[row.label]) for cell in plan.table.cells]


def _means(plan: Plan, results: Sequence[Result], cell: Cell, runs: Sequence[str]) -> list[float]:
    evaluation = key(plan.evaluations[cell.evaluation])
    means = []
    for run in runs:
        found = [
            100 * r.mrr
            for r in results
            if r.run == run
            and r.evaluation == evaluation
            and r.answers == cell.knowledge
            and cell.types in ("all", "seen" if r.seen else "unseen")
        ]
        if found:
            means.append(float(np.mean(found)))
    return means


def _spoken(plan: Plan, row: Row) -> list[str]:
    """Of each cell, how many of its types a row's model supports, where there are others."""
    architecture = load_spec(row.spec).architecture if row.spec else ""
    if plan.table.measure != "mrr" or not architecture:
        return [""] * len(plan.table.columns)
    known, texts = load_types(), []
    for cell in plan.table.cells:
        group = select(plan.definitions.types(plan.evaluations[cell.evaluation].types), known)
        shown = [kind for kind in group if cell.types in ("all", "seen" if kind.seen else "unseen")]
        said = sum(has_words(architecture, kind, plan.registry) for kind in shown)
        texts.append("" if said == len(shown) else f"{said} of {len(shown)} types")
    return texts


def has_words(architecture: str, kind: QueryType, registry: Registry | None = None) -> bool:
    """Whether a model of an architecture supports queries of a type."""
    part = (registry or default_registry()).get("architectures", architecture)
    return not issubclass(part, Executor) or why_unsupported(part, Template.of(kind.query)) is None


def _sizes(plan: Plan, results: Sequence[Result]) -> Iterator[list[list[float]]]:
    """Millions of parameters of each row's model, for the graph's vocabulary."""
    graph = load_graph(plan.graph)
    for job in jobs(evolve(plan, seeds=plan.seeds[:1])):
        spec = job.spec.replace(overrides_of(Vocabulary.of(graph, job.task.options.syntax)))
        model = build(spec, registry=plan.registry)
        yield [[sum(p.numel() for p in model.parameters()) / 1e6]]


def _statistics(plan: Plan, results: Sequence[Result]) -> Iterator[list[list[float]]]:
    """The sizes of the graph."""
    graph = load_graph(plan.graph)
    edges = [len(graph.added[split]) for split in SPLITS]
    counts = [graph.relations, graph.entities, *edges, sum(edges)]
    for _ in plan.table.rows:
        yield [[float(count)] for count in counts]
