"""The tables of TEGA as experiments; what trains, and torch with it, is imported when one runs."""

from __future__ import annotations

from attrs import evolve, frozen
from rich.console import Console

from peirce_papers.tega.tables import PREFIX, Definitions, TegaTable, definitions
from peirce_training.experiments import Experiment, ExperimentReport, ExperimentRequest


@frozen(kw_only=True, eq=False)
class TegaExperiment(Experiment):
    """One of the tables."""

    table: TegaTable
    definitions: Definitions

    def run(self, request: ExperimentRequest, console: Console) -> ExperimentReport:
        """Train and evaluate what the table needs and is not there yet, and write it beside the paper's figures."""
        from peirce_papers.tega.report import table_of
        from peirce_papers.tega.running import TegaRuns

        rows = tuple(row for row in self.table.rows if row.label in (request.rows or self.rows))
        table = self.table.split() if request.settings.get("task.strata") else self.table
        runs = TegaRuns(
            table=evolve(table, rows=rows),
            scale=self.definitions.scales[request.scale or next(iter(self.scales))],
            definitions=self.definitions,
            request=request,
        )
        return table_of(runs, runs.run(console)).write(request.directory)


def tega_experiments() -> list[Experiment]:
    """Every table that comes with Peirce."""
    found = definitions()
    return [
        TegaExperiment(
            name=PREFIX + table.name,
            title=table.title,
            rows=tuple(row.label for row in table.rows if not row.imported),
            more=tuple(row.label for row in table.rows if row.imported),
            columns=table.columns,
            published=table.graphs,
            scales={scale.name: scale.about for scale in found.scales.values()},
            table=table,
            definitions=found,
        )
        for table in found.tables.values()
    ]
