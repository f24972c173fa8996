"""A table of an experiment beside the paper's figures, with what must stand below it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from peirce.registry import load_spec
from peirce_kg import PUBLISHED, protocol
from peirce_papers.tega.figures import figures_of, supports
from peirce_papers.tega.running import RankingRow, TegaRuns
from peirce_papers.tega.tables import PREFIX
from peirce_training.experiments import FigureTable

_OTHERS = (
    "Columns with test alone filtered leave out the other members of A(test), those with all graphs filtered the other "
    "members of A(train), A(valid) and A(test)."
)


def table_of(runs: TegaRuns, rows: Sequence[RankingRow]) -> FigureTable:
    """The table.

    Args:
        runs: what was done.
        rows: what came out.
    """
    table, graph = runs.table, Path(runs.request.data).name
    paper_graph = next((name for name in (graph, "fb15k-237", *table.graphs) if name in table.graphs), "")
    return FigureTable(
        name=f"{table.name}-{graph}-{runs.scale.name}",
        title=table.title,
        about=f"{PREFIX}{table.name} on {runs.request.data}.",
        columns=table.columns,
        figures=figures_of(runs, rows, paper_graph),
        facts=_facts(runs, rows, paper_graph),
        sources=runs.sources(rows, "spec"),
        published=paper_graph,
        unit="MRR (%)" if table.measure == "mrr" else "",
        logarithmic=table.measure == "graph",
        drawn=tuple(map(str, table.cells)),
    )


def _facts(runs: TegaRuns, rows: Sequence[RankingRow], paper_graph: str) -> list[str]:
    changed = ", ".join(f"{key} = {value}" for key, value in runs.request.settings.items())
    besides = f"; here with {changed}" if changed else ""
    facts = [f"Graph {runs.request.data}, scale {runs.scale.name}: {runs.scale.about}{besides}."]
    if runs.table.measure == "mrr":
        facts = [f"MRR in %; {protocol(PUBLISHED)}. {_OTHERS}", f"{facts[0]} {_effort(runs, rows)}"]
        if absent := _types_without_figures(runs, rows):
            facts.append(f"Left out, as the graph has no queries of them: {', '.join(absent)}.")
    if paper_graph:
        facts.append(f"In brackets: the paper's figures for {paper_graph}, at its size and budget.")
    return facts


def _effort(runs: TegaRuns, rows: Sequence[RankingRow]) -> str:
    """How many queries, seeds, steps and seconds are behind the figures."""
    queries, seeds = [r.queries for r in rows] or [0], len(runs.request.seeds)
    return (
        f"{min(queries)} to {max(queries)} test queries a type and kind of answers; "
        f"mean (lowest to highest) over {seeds} seed{'s' * (seeds > 1)}; "
        f"{max((r.steps for r in rows), default=0):,} steps, "
        f"at most {max((r.seconds for r in rows), default=0.0):.0f} s a model."
    )


def _types_without_figures(runs: TegaRuns, rows: Sequence[RankingRow]) -> list[str]:
    """The types that no row has figures of though its model supports them."""
    measured = {r.type for r in rows}
    kinds = {
        kind.name: kind
        for evaluation in runs.table.all_evaluations.values()
        for kind in runs.definitions.kinds(evaluation)
    }
    models = {load_spec(row.spec).architecture for row in runs.table.rows if row.spec}
    return [
        name
        for name, kind in kinds.items()
        if measured and name not in measured and any(supports(model, kind, runs.registry) for model in models)
    ]
