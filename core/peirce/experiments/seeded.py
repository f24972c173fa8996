"""Tables whose rows are ready specs with changes, each trained with several seeds; experiments that write them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from attrs import evolve, field, frozen
from rich.console import Console

from peirce.experiments.matrix import Cell, Matrix, ResultRow, identity, last_loss
from peirce.experiments.report import FigureTable
from peirce.model import Experiment, ExperimentReport, ExperimentRequest
from peirce.registry import load_spec

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce.training import TrainingOptions, TrainResult


@frozen(kw_only=True)
class SeededRow(ResultRow):
    """A row of results that names the row of the table, and the mean loss of the last hundred steps."""

    label: str
    last_loss: float = field(converter=float)


S = TypeVar("S", bound=SeededRow)


@frozen(kw_only=True, eq=False)
class SeededMatrix(Matrix[Cell, S]):
    """Rows of a table, with several seeds each.

    Args:
        training: how they are trained.
        labels: the rows.
        seeds: of each row.
        changes: what differs from the rows' specs, by dotted key.
    """

    training: TrainingOptions
    labels: Sequence[str]
    seeds: tuple[int, ...]
    changes: Mapping[str, Any] = field(factory=dict)

    @abstractmethod
    def learnt(self) -> Iterator[tuple[AnyTask, Mapping[str, Any]]]:
        """What every row learns, and the options that tell one run from another: as JSON holds them, without places."""

    @abstractmethod
    def spec_of(self, label: str) -> tuple[str, Mapping[str, Any]]:
        """The ready spec of a row, and what it changes, by dotted key."""

    def training_of(self, label: str) -> TrainingOptions:
        """How a row is trained: by default as all are."""
        return self.training

    @abstractmethod
    def found(self, rows: Sequence[S]) -> str:
        """The figures of a cell, for its line of progress."""

    @abstractmethod
    def table(self, rows: Sequence[S]) -> FigureTable:
        """The table of rows."""

    def tables(self, rows: Sequence[S]) -> Sequence[FigureTable]:
        """All that is written of rows; the first is shown."""
        return (self.table(rows),)

    @property
    def over_seeds(self) -> str:
        """What a figure is, for the facts beside a table."""
        count = len(self.seeds)
        return f"mean (lowest to highest) over {count} seed{'s' * (count > 1)}"

    def cells(self) -> Iterator[Cell]:
        """The trainings: for each task, all rows of one seed before the next seed."""
        for task, options in self.learnt():
            given = task.overrides(self.prepared.of(task))
            for seed in self.seeds:
                for label in self.labels:
                    name, changes = self.spec_of(label)
                    spec = load_spec(name, {**given, **changes, **self.changes})
                    training = self.training_of(label)
                    run = identity(spec, options, training, seed)
                    yield Cell(label=label, seed=seed, spec=spec, task=task, training=training, run=run)

    def facts(self, cell: Cell, trained: TrainResult) -> dict[str, Any]:
        """The attributes of `SeededRow`."""
        return {**super().facts(cell, trained), "label": cell.label, "last_loss": last_loss(trained)}

    def said(self, cell: Cell, rows: Sequence[S]) -> str:
        """The training's time, size and loss, and its figures."""
        first = rows[0]
        size = f"{first.parameters:,} parameters, last loss {first.last_loss:.3f}"
        return f"{super().said(cell, rows)}, {size}; {self.found(rows)}"


class Tabled(Protocol):
    """A matrix whose rows make tables."""

    def run(self, console: Console) -> list[Any]:
        """As `Matrix.run`."""

    def tables(self, rows: Sequence[Any]) -> Sequence[FigureTable]:
        """As `SeededMatrix.tables`."""


@frozen(kw_only=True, eq=False)
class TableExperiment(Experiment):
    """An experiment that trains what its matrix still lacks, and writes the tables."""

    @abstractmethod
    def asked(self, request: ExperimentRequest) -> Tabled:
        """The matrix that a request asks for.

        Raises:
            PeirceError: a setting is unknown or impossible, or data are missing.
        """

    def run(self, request: ExperimentRequest, console: Console) -> ExperimentReport:
        """Do the trainings that are not done yet, and write the tables."""
        matrix = self.asked(request)
        first, *more = (table.write(request.directory) for table in matrix.tables(matrix.run(console)))
        return evolve(first, files=[*first.files, *(file for report in more for file in report.files)])

    def common(
        self, request: ExperimentRequest, training: Mapping[str, Any], rows: Sequence[str] = ()
    ) -> dict[str, Any]:
        """What a `SeededMatrix` takes of a request, but for its tasks and changes.

        Args:
            request: what is asked for.
            training: the settings of the training.
            rows: what is trained when the request names no rows; `self.rows` if empty.
        """
        from peirce.training import training_options

        wanted = request.rows or rows or self.rows
        return {
            "directory": request.directory,
            "command": request.command,
            "only_evaluate": request.only_evaluate,
            "seeds": request.seeds,
            "labels": tuple(label for label in (*self.rows, *self.more) if label in wanted),
            "training": training_options(training),
        }
