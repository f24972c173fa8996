"""A search: one training for each point and seed, none of them twice, and what came out, as JSON and CSV."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from peirce.errors import TaskError
from peirce.files import write_json
from peirce_training import (
    HARMLESS,
    Checkpoints,
    TrainResult,
    differences,
    lower_is_better,
    make_task,
    plain_options,
    read_training,
    saved_spec,
    settings_by_part,
    training_options,
)
from peirce_training.experiments.matrix import Cell, Matrix
from peirce_training.experiments.results import write_csv
from peirce_training.finetune.recipe import Cases, Point, Recipe, settings_text

SCHEMA = "peirce.finetune/1"


@frozen(kw_only=True)
class Run:
    """One training.

    Args:
        run: its directory, relative to the search's.
        seed: its seed.
        metrics: those of the recipe's split; empty if it failed.
        seconds: what it took.
        error: why it failed; empty if it did not.
    """

    run: str
    seed: int
    metrics: Mapping[str, float]
    seconds: float
    error: str = ""


@frozen(kw_only=True, eq=False)
class Search(Matrix[Run]):
    """All runs: each point of each case with each seed.

    Args:
        request: its data are the directory of the model that every run starts from.
        digest: SHA-256 of that model's weights.
        recipe: how.
        recipe_name: its name; empty without one.
        cases: the points of each case.
    """

    digest: str
    recipe: Recipe
    recipe_name: str
    cases: Cases

    quiet = True

    def cells(self) -> Iterator[Cell]:
        """Each point of each case with each seed."""
        splits = {"train.valid_split": self.recipe.split, "train.test_split": self.recipe.split}
        for case, points in self.cases.items():
            for point in points:
                model, task, training = settings_by_part({**splits, **point.settings})
                common: dict[str, Any] = {
                    "label": " ".join(filter(None, (case, settings_text(point.values)))),
                    "spec": saved_spec(self.request.data, model),
                    "task": make_task(self.recipe.task, task, self.registry),
                    "training": training_options(training),
                    "start": Path(self.request.data),
                }
                for seed in self.request.seeds:
                    yield Cell(**common, seed=seed, run=_folder(case, point, seed))

    def existing_rows(self, cells: Sequence[Cell]) -> list[Run]:
        """The runs whose record is there.

        Raises:
            TaskError: a folder holds another run; names what differs.
        """
        runs = []
        for cell in cells:
            if (record := read_training(self.path(cell))) is None:
                continue
            ours = _run_identity(
                plain_options(cell.task.options), plain_options(cell.training), cell.seed, self.digest
            )
            start = (record.get("start") or {}).get("digest")
            theirs = _run_identity(record["task"]["options"], record["training"], record["seed"], start)
            if differing := differences(ours, theirs):
                raise TaskError(
                    f"{self.path(cell)} was trained with other settings: {differing}. Give the same ones, or write "
                    "elsewhere with --output"
                )
            Checkpoints(self.path(cell)).remove()  # which `measure` did not, if it was killed
            metrics = record["metrics"].get(cell.training.test_split, {})
            known = {name: float(value) for name, value in metrics.items() if value is not None}
            runs.append(Run(run=cell.run, seed=cell.seed, metrics=known, seconds=float(record["seconds"])))
        return runs

    def measure(self, cell: Cell, trained: TrainResult, data: Any, before: Sequence[Run]) -> Iterator[Run]:
        """The run of a trained cell."""
        # The trained model is saved; checkpoints hold it again, with twice its size in moments.
        Checkpoints(self.path(cell)).remove()
        yield Run(run=cell.run, seed=cell.seed, metrics=dict(trained.metrics), seconds=trained.seconds)

    def failure_rows(self, cell: Cell, error: TaskError) -> Iterator[Run]:
        """The run with its error; the others go on."""
        if not self.path(cell).is_dir():
            raise error  # it did not begin, and neither would any other
        yield Run(run=cell.run, seed=cell.seed, metrics={}, seconds=0.0, error=str(error))

    def progress_text(self, cell: Cell, rows: Sequence[Run]) -> str:
        """The metric that points are compared by, or the error."""
        (run,) = rows
        metric = self._metric(rows)
        value = run.metrics.get(metric)
        found = f"{metric} {value:.4f}" if value is not None else f"no metric {metric}"
        return run.error or f"{found} in {run.seconds:.0f} s"

    def write(self, rows: Sequence[Run]) -> None:
        """Write `results.json` and `results.csv`."""
        results = self.results(rows)
        write_json(self.request.directory / "results.json", {"schema": SCHEMA, **results})
        runs = all_runs(results)
        keys = list(dict.fromkeys(key for _, values, _ in runs for key in values))
        metrics = list(dict.fromkeys(name for _, _, run in runs for name in run["metrics"]))
        table = [
            [
                *(case, *(values.get(key, "") for key in keys), run["seed"]),
                *(run["metrics"].get(name, "") for name in metrics),
                *(f"{run['seconds']:.1f}", run["directory"], run["error"]),
            ]
            for case, values, run in runs
        ]
        columns = ["case", *keys, "seed", *metrics, "seconds", "directory", "error"]
        write_csv(self.request.directory / "results.csv", columns, table)

    def results(self, rows: Sequence[Run]) -> dict[str, Any]:
        """The medians of points over seeds and the best point of each case, as far as runs are done, for JSON."""
        recipe, metric = self.recipe, self._metric(rows)
        done = {row.run: row for row in rows}
        listed: list[dict[str, Any]] = []
        for case, points in self.cases.items():
            outcomes = []
            for point in points:
                names = (_folder(case, point, seed) for seed in self.request.seeds)
                if runs := [done[name] for name in names if name in done]:
                    outcomes.append(outcome(point, runs, metric))
            listed.append({"case": case or None, "best": best(outcomes, metric), "points": outcomes})
        medians: list[Any] = [
            case["best"] and case["best"]["median"]
            for case in listed
            if case["case"] not in recipe.unaveraged
        ]
        return {
            "model": self.request.data,
            "digest": self.digest,
            "task": recipe.task,
            "recipe": self.recipe_name or None,
            "source": recipe.source or None,
            "split": recipe.split,
            "metric": metric,
            "protocol": f"median over seeds of {metric} on split {recipe.split}; the best point is chosen by it",
            "seeds": list(self.request.seeds),
            "runs": {"done": len(rows), "all": len(self.request.seeds) * sum(map(len, self.cases.values()))},
            "average": statistics.fmean(medians) if len(medians) > 1 and None not in medians else None,
            "unaveraged": [name for name in self.cases if name in recipe.unaveraged],
            "cases": listed,
        }

    def _metric(self, rows: Sequence[Run]) -> str:
        return self.recipe.metric or next((name for run in rows for name in run.metrics), "")


def _folder(case: str, point: Point, seed: int) -> str:
    return str(Path(case) / point.name / f"seed-{seed}")


def _run_identity(
    task: Mapping[str, Any], training: Mapping[str, Any], seed: int, start: str | None
) -> dict[str, Any]:
    """All that a run depends on beside what the name of its folder says."""
    kept = {f"train.{key}": value for key, value in training.items() if key not in HARMLESS}
    return {**{f"task.{k}": v for k, v in task.items()}, **kept, "seed": seed, "weights to start from": start}


def outcome(point: Point, runs: Sequence[Run], metric: str) -> dict[str, Any]:
    """A point's runs and the medians of their metrics; in that of `metric`, one that failed counts as the worst.

    The median is None if half of the runs failed, or gave no number.
    """
    worst = math.inf if lower_is_better(metric) else -math.inf
    values = [run.metrics.get(metric, math.nan) for run in runs]
    median = statistics.median(worst if math.isnan(value) else value for value in values)
    metrics = dict.fromkeys(name for run in runs for name in run.metrics)
    return {
        "point": point.name,
        "values": dict(point.values),
        "median": median if math.isfinite(median) else None,
        "medians": {
            name: statistics.median(run.metrics[name] for run in runs if name in run.metrics)
            for name in metrics
        },
        "runs": [
            {
                "seed": run.seed,
                "directory": run.run,
                "metrics": dict(run.metrics),
                "seconds": run.seconds,
                "error": run.error or None,
            }
            for run in runs
        ],
    }


def best(outcomes: Sequence[Mapping[str, Any]], metric: str) -> dict[str, Any] | None:
    """The point with the best median, of equals the first, with the directory of the run nearest to its median."""
    ranked = [each for each in outcomes if each["median"] is not None]
    if not ranked:
        return None
    found = (min if lower_is_better(metric) else max)(ranked, key=lambda each: each["median"])
    runs = [run for run in found["runs"] if metric in run["metrics"]]
    typical = min(runs, key=lambda run: abs(run["metrics"][metric] - found["median"]))
    return {**{k: v for k, v in found.items() if k != "runs"}, "directory": typical["directory"]}


def all_runs(results: Mapping[str, Any]) -> list[tuple[str | None, Mapping[str, Any], Mapping[str, Any]]]:
    """Each run of a search's results, with its case and the searched settings of its point."""
    return [
        (case["case"], point["values"], run)
        for case in results["cases"]
        for point in case["points"]
        for run in point["runs"]
    ]
