"""A matrix of trainings: its cells, each trained once, and the rows of results that they give.

A trained cell is found again by its identity, an interrupted training continues, and results are written after each
cell. Torch is imported when a matrix runs, so that defining one is cheap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, final

import numpy as np
from attrs import field, fields, frozen
from rich.console import Console

from peirce.errors import TaskError
from peirce.files import explain_disk_errors, read_json, write_json
from peirce_training.experiments.contract import ExperimentRequest
from peirce_training.experiments.results import commit, digest, read_rows, write_rows

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce.registry import Registry
    from peirce.spec import Spec
    from peirce_training import TrainingOptions, TrainResult

RESULTS = "results.csv"
ORIGIN = "origin.json"
"""The file beside a model with the commit that trained it and the time it took; evaluations do not change it."""
_UNREAD = frozenset({"batch_size", "predictions"})
"""Options of tasks that the prepared data do not depend on; cells that differ in these alone share their data."""
_COST_COLUMNS = (
    "parameters",
    "steps",
    "seconds",
    "last_loss",
    "spec_digest",
    "commit",
    "evaluated",
    "command",
)
"""The last columns of results: the cost of a run, and where it comes from."""

R = TypeVar("R", bound=Any)
"""A row of results; it has the `run` of its cell."""


@contextmanager
def results_lock(directory: Path) -> Iterator[None]:
    """Keep others from writing results to a folder, and explain the errors of a full disk.

    Raises:
        BusyError: another process writes there.
        WriteError: the disk is full or read-only.
    """
    from peirce_training import exclusive_lock

    intact = "what was done before is kept, and the same command goes on from there"
    with explain_disk_errors(f"results in {directory}", intact), exclusive_lock(directory):
        yield


@frozen(kw_only=True)
class ResultRow:
    """One row of results: what a trained cell is and what it took; subclasses add the figures.

    Args:
        run: the identity of the cell.
        seed: its seed.
        parameters: how many its model has.
        steps: of its training.
        seconds: that its training took.
        commit: the tree that trained it, with a plus sign if files differed from the commit.
        command: how its matrix was started.
        spec_digest: the digest of its spec (`Cell.spec_digest`); empty in results that are older than this column.
        evaluated: the tree that evaluated it; empty if older, too.
    """

    run: str
    seed: int = field(converter=int)
    parameters: int = field(converter=int)
    steps: int = field(converter=int)
    seconds: float = field(converter=float)
    commit: str
    command: str
    spec_digest: str = ""
    evaluated: str = ""

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """The columns of a file of results: what is measured, and its properties, stand before what it took."""
        names = [attribute.name for attribute in fields(cls)]
        derived = [
            name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, property)
        ]
        measured = [name for name in names if name not in ("run", "seed", *_COST_COLUMNS)]
        return ("run", "seed", *measured, *derived, *(name for name in _COST_COLUMNS if name in names))


@frozen(kw_only=True, eq=False)
class Cell:
    """One training of a matrix: a row of its table with one seed.

    Args:
        label: what is trained, for lines of progress.
        seed: what the parameters, the order of the batches and the dropout depend on.
        spec: the spec; `Matrix.spec_to_train` may complete it.
        task: what is learnt.
        training: how.
        run: the identity of the cell, which is its folder's name; `identity` makes one.
        start: the saved model that it starts from, if any.
        as_is: the saved model that is measured as it is, in place of a training, if any.
    """

    label: str
    seed: int
    spec: Spec
    task: AnyTask
    training: TrainingOptions
    run: str
    start: Path | None = None
    as_is: Path | None = None

    @property
    def spec_digest(self) -> str:
        """The digest of the spec, by which results of another spec are recognised."""
        return digest(self.spec.to_toml())


def identity(spec: Spec, task: Mapping[str, Any], training: TrainingOptions, seed: int, *more: Any) -> str:
    """A name that two cells share only if they do the same; the number of threads does not count.

    Args:
        spec: what is trained.
        task: the task's options as plain values, without those that change no result.
        training: how.
        seed: the seed.
        more: what else it depends on, as plain values.
    """
    from peirce_training import TrainingOptions, plain_options

    # Runs from before an option was there, or had its default, keep their names.
    options = plain_options(training) | {"threads": 0, "save_every": training.save_every or 500}
    del options["save_minutes"]
    defaults = plain_options(TrainingOptions(steps=1))
    for later in ("compile", "evaluate_epochs", "trainable", "rates", "warmups", "rank", "save"):
        if options[later] == defaults[later]:
            del options[later]
    return f"{spec.name}-{seed}-{digest(spec.to_toml(), *more, task, options, seed)}"


class PreparedData:
    """What tasks read, for all that read the same; only the last is kept, since graphs and corpora are large."""

    def __init__(self) -> None:
        self._key, self._data = "", None
        self._learned: dict[str, Any] = {}

    def get(self, task: AnyTask, start: Path | None = None) -> Any:
        """What `task.prepare()` gives, read anew only if the last task read something else.

        Args:
            task: the task, which then knows what the one that read them learned of them, such as the columns.
            start: the saved model that the task's training starts from.
        """
        from peirce_training import plain_options, with_tokenizer

        reader = task if start is None else with_tokenizer(task, start)
        key = digest(
            reader.name, {k: v for k, v in plain_options(reader.options).items() if k not in _UNREAD}
        )
        if key != self._key:
            self._data = None  # so that only one large data set is in memory at a time
            before = dict(vars(reader))
            self._data, self._key = reader.prepare(), key
            self._learned = {k: v for k, v in vars(reader).items() if k not in before or before[k] is not v}
        vars(task).update(self._learned)
        return self._data


@frozen(kw_only=True, eq=False)
class Matrix(ABC, Generic[R]):
    """Cells of trainings, how they are run, and how their results are kept.

    Args:
        request: where models and results go, the seeds, and whether trained cells are evaluated again and none trained.
        registry: where parts are looked up; the default registry if None.
        prepared: the data that cells share.
    """

    request: ExperimentRequest
    registry: Registry | None = None
    prepared: PreparedData = field(factory=PreparedData, repr=False)

    row: ClassVar[type[Any]]
    """The class of the rows in `RESULTS`, which several matrices may share."""
    folder: ClassVar[str] = ""
    """Where models go below the request's directory."""
    quiet: ClassVar[bool] = False
    """Whether what single trainings tell is shown on a screen alone."""

    @abstractmethod
    def cells(self) -> Iterable[Cell]:
        """The trainings, in their order; a setting that is unknown or impossible is a `PeirceError`."""

    @abstractmethod
    def measure(self, cell: Any, trained: TrainResult, data: Any, before: Sequence[R]) -> Iterable[R]:
        """The new rows of a trained cell, from what its task read; `before` are those that are there."""

    def existing_rows(self, cells: Sequence[Cell]) -> list[R]:
        """The rows that are there before any cell is done."""
        return read_rows(self.request.directory / RESULTS, self.row)

    def write(self, rows: Sequence[R]) -> None:
        """Write all rows, whole or not at all; called after each cell that is done anew."""
        write_rows(self.request.directory / RESULTS, rows, self.row.columns())

    def progress_text(self, cell: Cell, rows: Sequence[R]) -> str:
        """The text of the progress line of a cell that is done."""
        return f"{rows[0].steps:,} steps in {rows[0].seconds:.0f} s"

    def complete(self, rows: Sequence[R]) -> bool:
        """Whether the rows of a cell are all that is wanted of it."""
        return bool(rows)

    def spec_to_train(self, cell: Any, data: Any, console: Console) -> Spec:
        """The spec that a cell is trained with, once its data are there."""
        return cell.spec

    def failure_rows(self, cell: Cell, error: TaskError) -> Iterable[R]:
        """The rows of a cell that cannot be trained; by default the matrix ends with the error."""
        raise error

    @final
    def path(self, cell: Cell) -> Path:
        """The folder of a cell's model."""
        return self.request.directory / self.folder / cell.run

    def run(self, console: Console) -> list[R]:
        """Do the cells that are not done yet.

        Returns:
            The rows of the matrix's cells, cell by cell, earlier ones included.

        Raises:
            PeirceError: a cell cannot be done; those before it are kept. Or cells are to be evaluated again, and none
                is trained.
        """
        from peirce_training import is_first_process, read_training

        def say(text: str) -> None:
            console.print(text, markup=False, highlight=False, soft_wrap=True)

        with results_lock(self.request.directory):
            again, cells = self.request.only_evaluate, list(self.cells())
            done = self.existing_rows(cells)
            trained = {cell.run for cell in cells if cell.as_is or read_training(self.path(cell)) is not None}
            if again and not trained:
                raise TaskError(
                    f"{self.request.directory} has no trained model of this experiment with these settings and "
                    "seeds; train them with `peirce experiments run`, or name the folder of one with --output"
                )
            for number, cell in enumerate(cells, 1):
                title = f"{number}/{len(cells)} {cell.label}, seed {cell.seed}"
                rows, note = [row for row in done if row.run == cell.run], ""
                if again and cell.run not in trained:
                    say(f"{title}: not trained, left out")
                    continue
                if self.complete(rows) and not again:
                    note = f" (done before, run {cell.run})"
                else:
                    before = [] if again else rows
                    rows = [*before, *self._train(cell, before, title, console)]
                    done = [*(row for row in done if row.run != cell.run), *rows]
                    if is_first_process():
                        self.write(done)
                say(f"{title}: {self.progress_text(cell, rows)}{note}")
            return [row for cell in cells for row in done if row.run == cell.run]

    def facts(self, cell: Cell, trained: TrainResult) -> dict[str, Any]:
        """The attributes of `ResultRow`."""
        return {
            "run": cell.run,
            "seed": cell.seed,
            "parameters": sum(p.numel() for p in trained.model.parameters()),
            "steps": trained.steps,
            **self._origin(cell, trained),
            "spec_digest": cell.spec_digest,
            "evaluated": commit(),
        }

    def _origin(self, cell: Cell, trained: TrainResult) -> dict[str, Any]:
        """The tree and the command that trained a cell, and the seconds that it took."""
        path = self.path(cell) / ORIGIN
        if not path.exists():
            seconds = round(trained.seconds, 1)
            return {"seconds": seconds, "commit": commit(), "command": self.request.command}
        try:
            found = read_json(path)
            return {"seconds": float(found["seconds"]), **{k: str(found[k]) for k in ("commit", "command")}}
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise TaskError(
                f"{path} does not say which tree trained the model: {error!r}; remove its folder to train it anew"
            ) from error

    def sources(self, rows: Iterable[ResultRow], model: str) -> list[str]:
        """What figures come from: the parameters and the commit of each model, and the command.

        Args:
            rows: the results.
            model: the attribute of a row that names its model.
        """
        done = sorted({(getattr(row, model), f"{row.parameters:,}", row.commit) for row in rows})
        lines = [f"{name}: {parameters} parameters, commit {commit}" for name, parameters, commit in done]
        return lines + ([f"`{self.request.command}`"] if self.request.command else [])

    def _train(self, cell: Cell, before: Sequence[R], title: str, console: Console) -> list[R]:
        from peirce.compose import load
        from peirce_training import (
            Checkpoints,
            TrainResult,
            is_first_process,
            read_training,
            train,
        )

        shown = console if console.is_terminal or not self.quiet else None
        if shown is not None:
            shown.rule(title)
        data = self.prepared.get(cell.task, cell.start)
        if cell.as_is is not None:
            model = load(cell.as_is, registry=self.registry)
            untrained = TrainResult(model=model, losses=(), metrics={}, seconds=0.0, steps=0)
            return list(self.measure(cell, untrained, data, before))
        path = self.path(cell)
        trained_before = read_training(path) is not None
        try:
            trained = train(
                self.spec_to_train(cell, data, console),
                cell.task,
                cell.training,
                path,
                seed=cell.seed,
                resume=bool(Checkpoints(path, 1).paths()) or trained_before,
                registry=self.registry,
                console=shown,
                data=data,
                start=cell.start,
            )
        except TaskError as error:
            return list(self.failure_rows(cell, error))
        # Also of a model whose training was killed just before this line.
        if not self.request.only_evaluate and not (path / ORIGIN).exists() and is_first_process():
            write_json(path / ORIGIN, self._origin(cell, trained))
        return list(self.measure(cell, trained, data, before))


def last_loss(trained: TrainResult) -> float:
    """The mean loss of the last hundred steps; 0 of a model that is measured as it is."""
    return round(float(np.mean(trained.losses[-100:] or (0.0,))), 4)
