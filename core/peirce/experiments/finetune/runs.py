"""Running a search: one training for each point and seed, none of them twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen
from rich.console import Console

from peirce.errors import TaskError
from peirce.experiments.finetune.grid import Case, Point, shown
from peirce.experiments.finetune.recipe import Recipe
from peirce.experiments.finetune.results import Results, Run
from peirce.experiments.matrix import Cell, Matrix, settings_by_part
from peirce.files import digest_of
from peirce.model import WEIGHTS
from peirce.training import (
    Checkpoints,
    TrainResult,
    is_first_process,
    make_task,
    read_training,
    saved_spec,
    training_options,
)


@frozen(kw_only=True, eq=False)
class SearchCell(Cell):
    """A point of a case with one seed."""

    case: str
    point: Point


@frozen(kw_only=True, eq=False)
class Search(Matrix[SearchCell, Run]):
    """What is to be run.

    Args:
        model: the directory of the model that every run starts from.
        digest: SHA-256 of its weights.
        recipe: how.
        recipe_name: its name; empty without one.
        cases: the points of each case.
        seeds: the seeds of each point.
    """

    model: Path
    digest: str
    recipe: Recipe
    recipe_name: str
    cases: tuple[Case, ...]
    seeds: tuple[int, ...]

    quiet = True

    def cells(self) -> Iterator[SearchCell]:
        """Each point of each case with each seed."""
        splits = {"valid_split": self.recipe.split, "test_split": self.recipe.split}
        for case in self.cases:
            for point in case.points:
                model, task, training = settings_by_part(point.settings)
                common: dict[str, Any] = {
                    "label": " ".join(filter(None, (case.name, shown(point.values)))),
                    "spec": saved_spec(self.model, model),
                    "task": make_task(self.recipe.task, task, self.registry),
                    "training": training_options({**splits, **training}),
                    "start": self.model,
                    "start_digest": self.digest,
                    "case": case.name,
                    "point": point,
                }
                for seed in self.seeds:
                    run = str(Path(case.name) / point.name / f"seed-{seed}")
                    yield SearchCell(**common, seed=seed, run=run)

    def kept(self, cells: Sequence[SearchCell]) -> list[Run]:
        """The runs whose record is there.

        Raises:
            TaskError: a folder holds another run.
        """
        found = []
        for cell in cells:
            record = read_training(self.path(cell))
            if record is not None:
                self.check_data(cell)
                metrics = record["metrics"].get(cell.training.test_split, {})
                known = {name: float(value) for name, value in metrics.items() if value is not None}
                found.append(_row(cell, known, float(record["seconds"])))
        return found

    def measured(
        self, cell: SearchCell, trained: TrainResult, data: Any, before: Sequence[Run]
    ) -> Iterator[Run]:
        """The run of a trained cell."""
        # The trained model is saved; checkpoints hold it again, with twice its size in moments.
        Checkpoints(self.path(cell), 1).remove()
        yield _row(cell, trained.metrics, trained.seconds)

    def failed(self, cell: SearchCell, error: TaskError) -> Iterator[Run]:
        """The run with its error; the others go on."""
        if not self.path(cell).is_dir():
            raise error  # it did not begin, and neither would any other
        yield _row(cell, {}, 0.0, str(error))

    def said(self, cell: SearchCell, rows: Sequence[Run]) -> str:
        """The metric that points are compared by, or the error."""
        (run,) = rows
        metric = self._metric(rows)
        value = run.metrics.get(metric)
        found = f"{metric} {value:.4f}" if value is not None else f"no metric {metric}"
        return run.error or f"{found} in {run.seconds:.0f} s"

    def write(self, rows: Sequence[Run]) -> None:
        """Write `results.json` and `results.csv`."""
        self.results(rows).write(self.directory)

    def results(self, rows: Sequence[Run]) -> Results:
        """The outcomes of the points, as far as their runs are done."""
        return Results.of(
            self.cases,
            rows,
            recipe=attrs.evolve(self.recipe, metric=self._metric(rows)),
            recipe_name=self.recipe_name,
            model=str(self.model),
            digest=self.digest,
            seeds=self.seeds,
        )

    def _metric(self, rows: Sequence[Run]) -> str:
        return self.recipe.metric or next((name for run in rows for name in run.metrics), "")

    def _run(self, console: Console) -> list[Run]:
        """Write the results also where nothing was left to do: other seeds and points may have been asked for."""
        rows = super()._run(console)
        if is_first_process():
            self.write(rows)
        return rows


def search_of(
    model: Path,
    recipe: Recipe,
    cases: tuple[Case, ...],
    directory: Path,
    *,
    recipe_name: str,
    seeds: tuple[int, ...],
) -> Search:
    """A search, checked as far as can be before anything is read.

    Raises:
        TaskError: there is no saved model, or its directory is the search's own.
    """
    saved_spec(model)
    if model.resolve() == directory.resolve():
        raise TaskError(f"{directory} holds the model to start from; give another directory for the runs")
    try:
        digest = digest_of(model / WEIGHTS)
    except OSError as error:
        raise TaskError(
            f"the weights in {model} cannot be read: {error}; give the directory of a trained or an imported model"
        ) from error
    return Search(
        model=model,
        digest=digest,
        recipe=recipe,
        recipe_name=recipe_name,
        cases=cases,
        seeds=seeds,
        directory=directory,
    )


def _row(cell: SearchCell, metrics: Mapping[str, float], seconds: float, error: str = "") -> Run:
    facts: dict[str, Any] = {"case": cell.case, "point": cell.point, "seed": cell.seed, "directory": cell.run}
    return Run(**facts, metrics=dict(metrics), seconds=seconds, error=error)
