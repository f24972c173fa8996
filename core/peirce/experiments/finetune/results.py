"""What came out: runs, the medians of points over seeds, the best point of each case; as JSON and CSV."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
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
        median: the median over seeds of the recipe's metric; None if half of the runs failed, or gave no number.
        medians: of every metric, the median over the runs that did not fail.
        typical: the run whose metric is nearest to the median; None without one.
    """

    point: Point
    runs: tuple[Run, ...]
    median: float | None
    medians: Mapping[str, float]
    typical: Run | None

    def plain(self) -> dict[str, Any]:
        """As what JSON holds, without the runs."""
        point = {"point": self.point.name, "values": dict(self.point.values)}
        return {**point, "median": self.median, "medians": dict(self.medians)}


def outcome(point: Point, runs: Sequence[Run], recipe: Recipe) -> Outcome:
    """The medians of a point's runs; one that failed counts as the worst."""
    worst = math.inf if recipe.falls else -math.inf
    values = [run.metrics.get(recipe.metric, math.nan) if not run.error else worst for run in runs]
    found = statistics.median(worst if math.isnan(value) else value for value in values)
    median = found if math.isfinite(found) else None
    sound = [run for run in runs if not run.error]
    names = dict.fromkeys(name for run in sound for name in run.metrics)
    return Outcome(
        point=point,
        runs=tuple(runs),
        median=median,
        medians={
            name: statistics.median(run.metrics[name] for run in sound if name in run.metrics)
            for name in names
        },
        typical=min(sound, key=lambda run: abs(run.metrics[recipe.metric] - found))
        if median is not None
        else None,
    )


def best(outcomes: Iterable[Outcome], recipe: Recipe) -> Outcome | None:
    """The point with the best median; of equals, the first."""
    ranked = [(each.median, each) for each in outcomes if each.median is not None]
    choose = min if recipe.falls else max
    return choose(ranked, key=lambda pair: pair[0], default=(0.0, None))[1]


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
        outcomes = {
            case.name: tuple(
                outcome(point, by[case.name, point.name], recipe)
                for point in case.points
                if (case.name, point.name) in by
            )
            for case in cases
        }
        expected = len(facts["seeds"]) * sum(len(case.points) for case in cases)
        return cls(recipe=recipe, cases=outcomes, expected=expected, **facts)

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return [run for outcomes in self.cases.values() for o in outcomes for run in o.runs]

    @property
    def average(self) -> float | None:
        """The mean of the best medians over the cases that count; None until each of them has one."""
        counted = [own for name, own in self.cases.items() if name not in self.recipe.unaveraged]
        found = [best(own, self.recipe) for own in counted]
        known = [each.median for each in found if each is not None and each.median is not None]
        return sum(known) / len(known) if len(known) == len(counted) > 1 else None

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
            "cases": [self._case(name, outcomes) for name, outcomes in self.cases.items()],
        }

    def _case(self, name: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        found = best(outcomes, self.recipe)
        typical = found.typical if found is not None else None
        return {
            "case": name or None,
            "best": found and {**found.plain(), "directory": typical and typical.directory},
            "points": [{**each.plain(), "runs": list(map(_run, each.runs))} for each in outcomes],
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


def _run(run: Run) -> dict[str, Any]:
    told = attrs.asdict(run, recurse=False, filter=lambda each, _: each.name not in ("case", "point"))
    return {**told, "metrics": dict(run.metrics), "error": run.error or None}
