"""The figures of a table: means of what models were measured to do, their parameters, or the sizes of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import numpy as np
from attrs import evolve

from peirce.compose import build
from peirce.registry import Registry, default_registry, load_spec
from peirce_kg import Vocabulary, overrides_of, support_of
from peirce_papers.tega.running import RankingRow, TegaRuns
from peirce_papers.tega.tables import Column, TegaRow, stored_filtering
from peirce_queries import SPLITS, QueryType, Template, load_graph
from peirce_training.experiments import Figure


def figures_of(runs: TegaRuns, rows: Sequence[RankingRow], paper_graph: str) -> dict[str, list[Figure]]:
    """The figures of a table by the label of their row, in the order of the columns.

    Args:
        runs: the table, and what was done for it.
        rows: what came out, where models were trained; MRR becomes percent.
        paper_graph: the graph of the paper whose figures stand beside.
    """
    table = runs.table
    values = {"mrr": _mrr_figures, "parameters": _sizes, "graph": _statistics}[table.measure](runs, rows)
    found: dict[str, list[Figure]] = {}
    for row, measured in zip(table.rows, values, strict=True):
        printed = [*row.paper.get(paper_graph, ()), *repeat(None, len(table.columns))]
        cells = zip(table.columns, measured, printed, _support_texts(runs, row), strict=False)
        found[row.label] = [
            Figure(row=row.label, column=column, values=tuple(seeds), paper=paper, types=types)
            for column, seeds, paper, types in cells
        ]
    return found


def _mrr_figures(runs: TegaRuns, rows: Sequence[RankingRow]) -> Iterator[list[list[float]]]:
    """The figures of each row and column: MRR in percent, a value for each seed that is done."""
    known: dict[str, list[str]] = {}
    for cell in runs.cells():
        known.setdefault(cell.label, []).append(cell.run)
    for row in runs.table.rows:
        found = [
            next(r for r in rows if r.run == run) for run in known[row.label] if run in {r.run for r in rows}
        ]
        costs = [[r.parameters / 1e3 for r in found], [1e3 * r.query_seconds for r in found]]
        ranked = [_means(runs, rows, column, known[row.label]) for column in runs.table.measured_columns]
        yield [*ranked, *(costs if runs.table.costs else [])]


def _means(runs: TegaRuns, rows: Sequence[RankingRow], column: Column, known: Sequence[str]) -> list[float]:
    evaluation = runs.table.all_evaluations[column.evaluation].key
    values = [
        [
            100 * r.mrr
            for r in rows
            if (r.run, r.evaluation, r.answers, r.filtering)
            == (run, evaluation, column.knowledge, stored_filtering(column.filtering, column.knowledge))
            and column.types in ("all", "seen" if r.seen else "unseen")
        ]
        for run in known
    ]
    return [float(np.mean(found)) for found in values if found]


def _support_texts(runs: TegaRuns, row: TegaRow) -> list[str]:
    """How many types of each column a row's model supports, where it does not support all."""
    table = runs.table
    architecture = load_spec(row.spec).architecture if row.spec else ""
    if table.measure != "mrr" or not architecture:
        return [""] * len(table.columns)
    texts = []
    for column in table.measured_columns:
        group = runs.definitions.kinds(table.all_evaluations[column.evaluation])
        shown = [kind for kind in group if column.types in ("all", "seen" if kind.seen else "unseen")]
        count = sum(supports(architecture, kind, runs.registry) for kind in shown)
        texts.append("" if count == len(shown) else f"{count} of {len(shown)} types")
    return [*texts, *([""] * (len(table.columns) - len(texts)))]


def supports(architecture: str, kind: QueryType, registry: Registry | None = None) -> bool:
    """Whether a model of an architecture supports queries of a type."""
    part = (registry or default_registry()).get("architectures", architecture)
    return support_of(part).why_unsupported(Template.of(kind.query)) is None


def _sizes(runs: TegaRuns, rows: Sequence[RankingRow]) -> Iterator[list[list[float]]]:
    """Millions of parameters of each row's model, for the graph's vocabulary."""
    graph = load_graph(runs.request.data)
    for cell in evolve(runs, request=evolve(runs.request, seeds=(0,))).cells():
        spec = cell.spec.replace(overrides_of(Vocabulary.of(graph, cell.task.options.syntax)))
        yield [[sum(p.numel() for p in build(spec, registry=runs.registry).parameters()) / 1e6]]


def _statistics(runs: TegaRuns, rows: Sequence[RankingRow]) -> Iterator[list[list[float]]]:
    """The sizes of the graph."""
    graph = load_graph(runs.request.data)
    edges = [len(graph.added[split]) for split in SPLITS]
    counts = [graph.relations, graph.entities, *edges, sum(edges)]
    for _ in runs.table.rows:
        yield [[float(count)] for count in counts]
