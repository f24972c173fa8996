"""What came out: runs, the medians of points over seeds, the best point of each case; as JSON, CSV and tables."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from peirce.experiments.finetune.grid import Case, Point
from peirce.experiments.finetune.recipe import Recipe
from peirce.experiments.results import write_csv
from peirce.files import write_json

SCHEMA = "peirce.finetune/1"
RESULTS, TABLE = "results.json", "results.csv"


@frozen(kw_only=True)
class Run:
    """One training.

    Args:
        case: the name of its case.
        point: its point.
        seed: its seed.
        directory: where it is, relative to the search's.
        metrics: those of the recipe's split; empty if it failed.
        seconds: what it took.
        error: why it failed; empty if it did not.
    """

    case: str
    point: Point
    seed: int
    directory: str
    metrics: Mapping[str, float]
    seconds: float
    error: str = ""

    @property
    def run(self) -> str:
        """What it is known by: its directory."""
        return self.directory


@frozen(kw_only=True)
class Outcome:
    """The runs of one point.

    Args:
        point: the point.
        runs: a run for each seed.
        metric: what it is judged by.
        median: the median over seeds of that metric; None if half of the runs failed, or gave no number.
        medians: the same of every metric, over the runs that did not fail.
    """

    point: Point
    runs: tuple[Run, ...]
    metric: str
    median: float | None
    medians: Mapping[str, float]

    @property
    def typical(self) -> Run | None:
        """The run whose metric is nearest to the median."""
        median = self.median
        if median is None:
            return None
        sound = [run for run in self.runs if not run.error]
        return min(sound, key=lambda run: abs(run.metrics[self.metric] - median))


def outcome(point: Point, runs: Sequence[Run], recipe: Recipe) -> Outcome:
    """The medians of a point's runs; one that failed counts as the worst."""
    worst = math.inf if recipe.falls else -math.inf
    values = [run.metrics.get(recipe.metric, math.nan) if not run.error else worst for run in runs]
    median = statistics.median(worst if math.isnan(value) else value for value in values)
    sound = [run.metrics for run in runs if not run.error]
    names = dict.fromkeys(name for metrics in sound for name in metrics)
    return Outcome(
        point=point,
        runs=tuple(runs),
        metric=recipe.metric,
        median=median if math.isfinite(median) else None,
        medians={
            name: statistics.median(metrics[name] for metrics in sound if name in metrics) for name in names
        },
    )


def best(outcomes: Iterable[Outcome], recipe: Recipe) -> Outcome | None:
    """The point with the best median; of equals, the first."""
    ranked = [o for o in outcomes if o.median is not None]
    sign = -1.0 if recipe.falls else 1.0
    return max(ranked, key=lambda o: sign * (o.median or 0.0), default=None)


@frozen(kw_only=True)
class Results:
    """A whole search.

    Args:
        model: the directory of the model that it starts from.
        digest: SHA-256 of its weights.
        recipe: what was done.
        recipe_name: its name; empty without one.
        seeds: the seeds of each point.
        cases: the outcomes of each case, as far as their runs are done.
        expected: how many runs there are in all.
    """

    model: str
    digest: str
    recipe: Recipe
    recipe_name: str
    seeds: tuple[int, ...]
    cases: Mapping[str, tuple[Outcome, ...]]
    expected: int

    @classmethod
    def of(cls, cases: Sequence[Case], runs: Sequence[Run], *, recipe: Recipe, **facts: Any) -> Results:
        """Sort runs by case, point and seed; points without a run are left out."""
        by: dict[tuple[str, str], list[Run]] = {}
        for run in sorted(runs, key=lambda run: facts["seeds"].index(run.seed)):
            by.setdefault((run.case, run.point.name), []).append(run)
        return cls(
            recipe=recipe,
            cases={
                case.name: tuple(
                    outcome(point, by[case.name, point.name], recipe)
                    for point in case.points
                    if (case.name, point.name) in by
                )
                for case in cases
            },
            expected=len(facts["seeds"]) * sum(len(case.points) for case in cases),
            **facts,
        )

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return [run for outcomes in self.cases.values() for o in outcomes for run in o.runs]

    @property
    def average(self) -> float | None:
        """The mean of the best medians over the cases that count; None until each of them has one."""
        counted = [name for name in self.cases if name not in self.recipe.unaveraged]
        medians = [(o.median if o else None) for o in (best(self.cases[n], self.recipe) for n in counted)]
        known = [median for median in medians if median is not None]
        return sum(known) / len(known) if known and len(known) == len(medians) and len(medians) > 1 else None

    def plain(self) -> dict[str, Any]:
        """As what JSON holds."""
        recipe = self.recipe
        return {
            "model": self.model,
            "digest": self.digest,
            "task": recipe.task,
            "recipe": self.recipe_name or None,
            "source": recipe.source or None,
            "split": recipe.split,
            "metric": recipe.metric,
            "protocol": f"median over seeds of {recipe.metric} on split {recipe.split}; the best point is chosen by it",
            "seeds": list(self.seeds),
            "runs": {"done": len(self.runs), "all": self.expected},
            "average": self.average,
            "unaveraged": [name for name in self.cases if name in recipe.unaveraged],
            "cases": [
                {
                    "case": name or None,
                    "best": _best_plain(best(outcomes, recipe)),
                    "points": [_plain(o) for o in outcomes],
                }
                for name, outcomes in self.cases.items()
            ],
        }

    def write(self, directory: Path) -> None:
        """Write `results.json` and `results.csv`, each whole or not at all."""
        write_json(directory / RESULTS, {"schema": SCHEMA, **self.plain()})
        keys = list(dict.fromkeys(key for run in self.runs for key in run.point.values))
        metrics = list(dict.fromkeys(name for run in self.runs for name in run.metrics))
        rows = [
            [
                *(run.case, *(run.point.values.get(key, "") for key in keys), run.seed),
                *(run.metrics.get(name, "") for name in metrics),
                *(f"{run.seconds:.1f}", run.directory, run.error),
            ]
            for run in self.runs
        ]
        write_csv(directory / TABLE, ["case", *keys, "seed", *metrics, "seconds", "directory", "error"], rows)


def _plain(found: Outcome) -> dict[str, Any]:
    return {
        **_medians(found),
        "runs": [
            {
                "seed": run.seed,
                "directory": run.directory,
                "metrics": dict(run.metrics),
                "seconds": run.seconds,
                "error": run.error or None,
            }
            for run in found.runs
        ],
    }


def _best_plain(found: Outcome | None) -> dict[str, Any] | None:
    if found is None:
        return None
    typical = found.typical
    return {**_medians(found), "directory": typical.directory if typical else None}


def _medians(found: Outcome) -> dict[str, Any]:
    return {
        "point": found.point.name,
        "values": dict(found.point.values),
        "median": found.median,
        "medians": dict(found.medians),
    }
