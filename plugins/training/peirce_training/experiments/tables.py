"""Tables whose rows are ready specs with changes, each trained with several seeds; experiments that write them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from attrs import evolve, field, frozen
from rich.console import Console

from peirce.registry import load_spec
from peirce_training.experiments.contract import Experiment, ExperimentReport, ExperimentRequest
from peirce_training.experiments.matrix import Cell, Matrix, ResultRow, identity, last_loss
from peirce_training.experiments.report import Figure, FigureTable

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce.spec import Spec
    from peirce_training import TrainingOptions, TrainResult


@frozen(kw_only=True)
class SeededRow(ResultRow):
    """A row of results with the mean loss of the last hundred steps; `str` gives its figures in a few words.

    Subclasses have the row of the table that it belongs to, as `label` or what `SeededMatrix.named` says.
    """

    last_loss: float = field(converter=float)


@frozen(kw_only=True)
class AccuracyRow(SeededRow):
    """How many examples of one group a run has right; subclasses have the group and the count of its examples."""

    right: int = field(converter=int)

    count: ClassVar[str]
    """The attribute that counts a group's examples."""
    groups: ClassVar[tuple[str, ...]]
    """The attributes that tell groups apart."""

    @property
    def accuracy(self) -> float:
        """The share of examples that the run has right."""
        return round(self.right / getattr(self, self.count), 4)

    def __str__(self) -> str:
        return " ".join([*(str(getattr(self, name)) for name in self.groups), f"{self.accuracy:.3f}"])


S = TypeVar("S", bound=SeededRow)


def by_run(rows: Iterable[S], **wanted: object) -> list[list[S]]:
    """The rows of each run whose attributes have the wanted values."""
    found: dict[str, list[S]] = {}
    for row in rows:
        if all(getattr(row, name) == value for name, value in wanted.items()):
            found.setdefault(row.run, []).append(row)
    return list(found.values())


def accuracies(rows: Iterable[AccuracyRow], **wanted: object) -> tuple[float, ...]:
    """The accuracy of each run in percent, over its rows whose attributes have the wanted values."""
    return tuple(
        100 * sum(row.right for row in run) / sum(getattr(row, row.count) for row in run)
        for run in by_run(rows, **wanted)
    )


@frozen(kw_only=True)
class Scale:
    """How large everything is.

    Args:
        about: what it means, in a line.
        settings: of models, task and training, by dotted key.
        rows: what is trained when the request names no rows; the experiment's own if empty.
    """

    about: str
    settings: Mapping[str, Any] = field(factory=dict)
    rows: tuple[str, ...] = ()


@frozen(kw_only=True, eq=False)
class SeededMatrix(Matrix[S]):
    """Rows of a table, with several seeds each.

    A subclass says which task is learnt, where its data lie, which spec a row has, and what is measured and shown.

    Args:
        scale: how large everything is, a `Scale` of the experiment.
        labels: the rows.
    """

    scale: Any
    labels: Sequence[str]

    learns: ClassVar[str]
    """The name of the task."""
    common: ClassVar[Mapping[str, Any]] = {"train.keep": 1, "train.test_split": ""}
    """The settings of every scale, by dotted key."""
    aside: ClassVar[Mapping[str, Any]] = {"folder": ""}
    """Options of the task that no result depends on, such as places, and what stands for them in a run's name."""
    named: ClassVar[str] = "label"
    """The attribute of a result that names its row."""

    def places(self) -> Mapping[str, Any]:
        """The settings that say where data lie."""
        return {"task.folder": self.request.data}

    def make_tasks(self, options: dict[str, Any]) -> Mapping[str, AnyTask]:
        """What is learnt, by a name of it, with some options: by default one task."""
        from peirce_training import make_task

        return {"": make_task(self.learns, options)}

    @cached_property
    def settings(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """The settings of the models, by dotted key, of the task and of the training."""
        from peirce_training import settings_by_part

        return settings_by_part(self.common, self.scale.settings, self.places(), self.request.settings)

    @property
    def changes(self) -> Mapping[str, Any]:
        """What differs from the rows' specs, by dotted key."""
        return self.settings[0]

    @cached_property
    def tasks(self) -> Mapping[str, AnyTask]:
        """What is learnt, by a name of it."""
        return self.make_tasks(dict(self.settings[1]))

    @cached_property
    def training(self) -> TrainingOptions:
        """How the rows are trained."""
        from peirce_training import training_options

        return training_options(self.settings[2])

    @abstractmethod
    def spec_of(self, label: str) -> tuple[str, Mapping[str, Any]]:
        """The ready spec of a row, and what it changes, by dotted key."""

    @abstractmethod
    def table(self, rows: Sequence[S]) -> FigureTable:
        """The table of results."""

    def tables(self, rows: Sequence[S]) -> Sequence[FigureTable]:
        """All that is written of results; the first is shown."""
        return (self.table(rows),)

    def training_of(self, label: str) -> TrainingOptions:
        """How a row is trained: by default as all are."""
        return self.training

    def task_identity(self, name: str, task: AnyTask) -> Mapping[str, Any]:
        """The options of a task that tell runs apart, as plain values."""
        from peirce_training import plain_options

        return plain_options(task.options) | dict(self.aside)

    def is_wanted(self, row: S) -> bool:
        """Whether a result is one of this table: by default each of the rows' is."""
        return True

    @property
    def task(self) -> Any:
        """The task, where there is one alone."""
        (task,) = self.tasks.values()
        return task

    @property
    def data(self) -> Any:
        """What the task reads, where there is one alone."""
        return self.prepared.get(self.task)

    @property
    def over_seeds(self) -> str:
        """What a figure is, for the facts beside a table."""
        count = len(self.request.seeds)
        return f"mean (lowest to highest) over {count} seed{'s' * (count > 1)}"

    def specs(self, given: Mapping[str, Any]) -> Mapping[str, Spec]:
        """The specs of the rows, with what the data determine."""
        specs = ((label, *self.spec_of(label)) for label in self.labels)
        return {
            label: load_spec(name, {**given, **changes, **self.changes}) for label, name, changes in specs
        }

    def cells(self) -> Iterator[Cell]:
        """The trainings: for each task, all rows of one seed before the next seed."""
        for name, task in self.tasks.items():
            specs, options = (
                self.specs(task.overrides(self.prepared.get(task))),
                self.task_identity(name, task),
            )
            for seed in self.request.seeds:
                for label, spec in specs.items():
                    training = self.training_of(label)
                    run = identity(spec, options, training, seed)
                    yield Cell(label=label, seed=seed, spec=spec, task=task, training=training, run=run)

    def complete(self, rows: Sequence[S]) -> bool:
        """Whether there is a result of this table."""
        return any(map(self.is_wanted, rows))

    def facts(self, cell: Cell, trained: TrainResult) -> dict[str, Any]:
        """The attributes of `SeededRow`, and the one that names the row."""
        return {**super().facts(cell, trained), self.named: cell.label, "last_loss": last_loss(trained)}

    def progress_text(self, cell: Cell, rows: Sequence[S]) -> str:
        """The training's time, size and loss, and its figures."""
        first, found = rows[0], ", ".join(filter(None, map(str, filter(self.is_wanted, rows))))
        size = f"{first.parameters:,} parameters, last loss {first.last_loss:.3f}"
        return f"{super().progress_text(cell, rows)}, {size}; {found}"

    def comparison_table(
        self,
        rows: Sequence[S],
        columns: Iterable[str],
        values: Callable[[str, str], Iterable[float]],
        paper: Mapping[str, Sequence[float | None]],
        *,
        labels: Iterable[str] = (),
        **options: Any,
    ) -> FigureTable:
        """Figures by row and column beside the paper's.

        Args:
            rows: the results.
            columns: the heads of the columns.
            values: of a row and a column, the figure of each run.
            paper: the printed figures of a row, in the order of the columns; the last ones may lack.
            labels: rows without results that are shown, too.
            options: what else `FigureTable` takes.
        """
        columns = tuple(columns)
        figures = {
            label: [
                Figure(row=label, column=column, values=tuple(values(label, column)), paper=printed)
                for column, printed in zip(columns, chain(paper.get(label, ()), repeat(None)), strict=False)
            ]
            for label in dict.fromkeys([*(getattr(row, self.named) for row in rows), *labels])
        }
        return FigureTable(
            columns=columns, figures=figures, sources=self.sources(rows, self.named), **options
        )


@frozen(kw_only=True, eq=False)
class TableExperiment(Experiment):
    """An experiment that trains what its matrix still lacks, and writes the tables.

    Args:
        matrix: what is trained and shown.
        sizes: the scales; the first one is taken unless another is asked for.
    """

    matrix: type[SeededMatrix[Any]]
    sizes: Mapping[str, Scale]
    scales: Mapping[str, str] = field(init=False)

    @scales.default
    def _(self) -> Mapping[str, str]:
        return {name: scale.about for name, scale in self.sizes.items()}

    def matrix_for(self, request: ExperimentRequest) -> SeededMatrix[Any]:
        """The trainings that a request asks for."""
        scale = self.sizes[request.scale or next(iter(self.sizes))]
        wanted = request.rows or scale.rows or self.rows
        labels = tuple(label for label in (*self.rows, *self.more) if label in wanted)
        return self.matrix(request=request, scale=scale, labels=labels)

    def run(self, request: ExperimentRequest, console: Console) -> ExperimentReport:
        """Do the trainings that are not done yet, and write the tables."""
        matrix = self.matrix_for(request)
        first, *more = (table.write(request.directory) for table in matrix.tables(matrix.run(console)))
        return evolve(first, files=[*first.files, *(file for report in more for file in report.files)])
