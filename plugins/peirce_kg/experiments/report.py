"""A table of an experiment beside the paper's figures: as Markdown, CSV, a picture and on the screen."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import attrs
import numpy as np
from attrs import field, frozen
from peirce.experiments import write_rows
from peirce.files import write_whole
from peirce.registry import load_spec
from rich.markup import escape
from rich.table import Table as Shown

from peirce_kg.evaluation import Filtering, protocol
from peirce_kg.experiments.figures import Figure, figures_of, has_words
from peirce_kg.experiments.running import Plan, Result, jobs
from peirce_kg.experiments.tables import PREFIX
from peirce_kg.queries.types import load_types, select

FIELDS = tuple(attribute.name for attribute in attrs.fields(Figure))
NONE = "-"
"""What a table shows where there is no figure."""


@frozen(eq=False)
class Outcome:
    """A whole table.

    Args:
        plan: what was done.
        results: what came out.
        paper_graph: the graph of the paper's figures that are shown; empty where the paper has none.
    """

    plan: Plan
    results: Sequence[Result]
    paper_graph: str = field()

    @paper_graph.default
    def _(self) -> str:
        printed = self.plan.table.graphs
        wanted = (Path(self.plan.graph).name, "fb15k-237", *printed)
        return next((graph for graph in wanted if graph in printed), "")

    @property
    def name(self) -> str:
        """What its files are called, without their endings."""
        return f"{self.plan.table.name}-{Path(self.plan.graph).name}-{self.plan.scale.name}"

    @cached_property
    def figures(self) -> dict[str, list[Figure]]:
        """The figures by the label of their row, in the order of the columns."""
        return figures_of(self.plan, self.results, self.paper_graph)

    def facts(self) -> list[str]:
        """What must stand beside the figures."""
        plan = self.plan
        changed = ", ".join(f"{key} = {value}" for key, value in plan.settings.items())
        besides = f"; here with {changed}" if changed else ""
        facts = [f"Graph {plan.graph}, scale {plan.scale.name}: {plan.scale.about}{besides}."]
        if plan.table.measure == "mrr":
            facts = [f"MRR in %; {protocol(self._filtering)}.", f"{facts[0]} {self._effort()}"]
            if absent := self._absent():
                facts.append(f"Left out, as the graph has no queries of them: {', '.join(absent)}.")
        if self.paper_graph:
            facts.append(f"In brackets: the paper's figures for {self.paper_graph}, at its size and budget.")
        return facts

    @property
    def _filtering(self) -> Filtering:
        (asked,) = {job.task.options.filtering for job in jobs(self.plan)}
        return asked

    def _effort(self) -> str:
        """How many queries, seeds, steps and seconds are behind the figures."""
        results, seeds = self.results, len(self.plan.seeds)
        queries = [r.queries for r in results] or [0]
        return (
            f"{min(queries)} to {max(queries)} test queries a type and kind of answers; "
            f"mean (lowest to highest) over {seeds} seed{'s' * (seeds > 1)}; "
            f"{max((r.steps for r in results), default=0):,} steps, "
            f"at most {max((r.seconds for r in results), default=0.0):.0f} s a model."
        )

    def _absent(self) -> list[str]:
        """The types that no row has figures of though its model has words for them."""
        plan, measured = self.plan, {r.type for r in self.results}
        groups = [plan.definitions.types(evaluation.types) for evaluation in plan.evaluations.values()]
        asked = {kind.name: kind for group in groups for kind in select(group, load_types())}
        models = {load_spec(row.spec).architecture for row in plan.table.rows if row.spec}
        return [
            name
            for name, kind in asked.items()
            if measured
            and name not in measured
            and any(has_words(model, kind, plan.registry) for model in models)
        ]

    def markdown(self) -> str:
        """The table as Markdown."""
        columns = self.plan.table.columns
        lines = [
            f"# {self.plan.table.title}",
            "",
            f"{PREFIX}{self.plan.table.name} on {self.plan.graph}.",
            "",
        ]
        lines.append("| |" + "".join(f" {column} |" for column in columns))
        lines.append("|---|" + "---:|" * len(columns))
        for label, figures in self.figures.items():
            lines.append(f"| {label} |" + "".join(f" {_text(figure)} |" for figure in figures))
        lines += ["", *(f"{fact}\n" for fact in self.facts())]
        done = sorted({(r.spec, f"{r.parameters:,}", r.commit) for r in self.results})
        lines += [f"* {spec}: {parameters} parameters, commit {commit}" for spec, parameters, commit in done]
        return "\n".join([*lines, f"* `{self.plan.command}`" if self.plan.command else ""]).rstrip() + "\n"

    def shown(self) -> Shown:
        """The table for a screen."""
        table = Shown(
            title=f"{self.plan.table.name}: {self.plan.table.title}", caption=" ".join(self.facts())
        )
        table.add_column("")
        for column in self.plan.table.columns:
            table.add_column(column, justify="right")
        for label, figures in self.figures.items():
            table.add_row(escape(label), *(_text(figure) for figure in figures))
        return table

    def write(self) -> list[Path]:
        """Write Markdown, CSV and picture into the plan's directory, each whole or not at all."""
        base = self.plan.directory / self.name
        base.parent.mkdir(parents=True, exist_ok=True)
        paths = [base.with_name(base.name + ending) for ending in (".md", ".csv", ".png")]
        write_whole(paths[0], self.markdown())
        rows = [figure for figures in self.figures.values() for figure in figures]
        write_rows(paths[1], rows, FIELDS)
        write_whole(paths[2], self._picture())
        return paths

    def _picture(self) -> bytes:
        """A bar for each row and column, a line over the seeds, and a dash where the paper's figure is."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Picture

        columns = self.plan.table.columns
        picture = Picture(figsize=(max(6.0, 1.8 * len(columns) + 2), 4.5), layout="constrained")
        FigureCanvasAgg(picture)
        axes = picture.subplots()
        width = 0.8 / len(self.figures)
        for i, (label, figures) in enumerate(self.figures.items()):
            places = np.arange(len(columns)) - 0.4 + (i + 0.5) * width
            axes.bar(places, [f.mean or 0.0 for f in figures], width, color=f"C{i}", label=label)
            for place, found in zip(places, figures, strict=True):
                if found.low is not None and found.high is not None:
                    axes.plot([place, place], [found.low, found.high], color="0.2", linewidth=1.5)
                if found.paper is not None:
                    ends = [place - width / 2, place + width / 2]
                    axes.plot(ends, [found.paper] * 2, "--", color="k", linewidth=1)
        if self.paper_graph:
            axes.plot([], [], "--", color="k", linewidth=1, label=f"paper, {self.paper_graph}")
        axes.set_xticks(np.arange(len(columns)), [column.replace(", ", "\n") for column in columns])
        if self.plan.table.measure == "mrr":
            axes.set_ylabel("MRR (%)")
        if self.plan.table.measure == "graph":
            axes.set_yscale("log")
        axes.set_title(f"{self.plan.table.title} ({self.plan.graph}, {self.plan.scale.name})")
        axes.legend(fontsize="small")
        content = io.BytesIO()
        picture.savefig(content, format="png", dpi=120)
        return content.getvalue()


def _text(figure: Figure) -> str:
    if figure.mean is None:
        text = NONE
    elif figure.seeds == 1:
        text = _number(figure.mean)
    else:
        text = f"{_number(figure.mean)} ({_number(figure.low)} to {_number(figure.high)})"
    if figure.mean is not None and figure.types:
        text += f", {figure.types}"
    return text if figure.paper is None else f"{text} [{_number(figure.paper)}]"


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"
