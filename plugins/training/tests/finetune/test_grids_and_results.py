"""Points of a search, and medians worked by hand."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from peirce.errors import TaskError
from peirce_training.experiments import ExperimentRequest
from peirce_training.finetune.recipe import Grid, Point, Recipe, cases
from peirce_training.finetune.search import Run, Search, best, outcome

RECIPE = Recipe(
    task="glue",
    metric="score",
    unaveraged=("wnli",),
    settings={"task.length": 64},
    grid=(
        Grid(only={"task.task": ("rte",)}, values={"train.epochs": (1,)}),
        Grid(values={"train.lr": (1e-5, 2e-5), "task.batch_size": (4, 8)}),
    ),
)


def points(given: dict[str, Any], recipe: Recipe = RECIPE) -> Sequence[Point]:
    return cases(recipe, given)[""]


def test_every_combination_is_a_point() -> None:
    found = points({})
    assert [point.name for point in found] == [
        "lr-1e-05_batch_size-4",
        "lr-1e-05_batch_size-8",
        "lr-2e-05_batch_size-4",
        "lr-2e-05_batch_size-8",
    ]
    assert found[1].settings == {"task.length": 64, "train.lr": 1e-5, "task.batch_size": 8}
    assert [point.name for point in points({"task.task": "rte"})] == ["epochs-1"]


def test_a_setting_fixes_an_axis_and_a_list_is_one() -> None:
    assert [point.name for point in points({"train.lr": 1.0, "task.batch_size": [2, 3]})] == [
        "batch_size-2",
        "batch_size-3",
    ]
    assert len(points({"train.seed": [1, 2], "train.lr": 1.0, "task.batch_size": 1})) == 2


def test_a_list_for_a_setting_that_is_one_is_not_searched() -> None:
    (point,) = points({"task.types": ["1p", "2p"], "task.graph": "umls"}, Recipe(task="kgqa"))
    assert (point.name, point.settings["task.types"]) == ("only", ["1p", "2p"])


def test_each_value_is_a_search_of_its_own() -> None:
    found = cases(RECIPE, {}, ("task.task", ["cola", "rte"]))
    assert {case: len(own) for case, own in found.items()} == {"cola": 4, "rte": 1}
    with pytest.raises(TaskError, match="'rte' twice"):
        cases(RECIPE, {}, ("task.task", ["rte", "rte"]))


def test_a_recipe_without_a_grid_for_the_case_is_refused() -> None:
    only = Recipe(task="glue", grid=RECIPE.grid[:1])
    with pytest.raises(TaskError, match=r"it has one where task\.task is one of rte"):
        points({"task.task": "cola"}, only)


def runs(point: Point, scores: Iterable[float], case: str = "") -> list[Run]:
    """A run of a point for each score; one without a number failed."""
    return [
        Run(
            run=f"{case}/{point.name}/seed-{seed}".lstrip("/"),
            seed=seed,
            metrics={} if math.isnan(score) else {"score": score, "other": 10 * score},
            seconds=1.0,
            error="not finite" if math.isnan(score) else "",
        )
        for seed, score in enumerate(scores)
    ]


ONE, TWO = Point("one", {"train.lr": 1}, {}), Point("two", {"train.lr": 2}, {})


def test_the_median_over_seeds_counts_and_the_best_one_wins() -> None:
    points = [
        outcome(ONE, runs(ONE, (0.9, 0.1, 0.5)), "score"),
        outcome(TWO, runs(TWO, (0.6, 0.7, 0.4)), "score"),
    ]
    assert [point["median"] for point in points] == [0.5, 0.6]
    assert points[1]["medians"] == {"score": 0.6, "other": 6.0}
    found = best(points, "score")
    assert found is not None
    assert (found["point"], found["directory"]) == ("two", "two/seed-0")
    falling = best(
        [{**point, "runs": [{"metrics": {"loss": 0}, "directory": ""}]} for point in points], "loss"
    )
    assert falling is not None
    assert falling["point"] == "one"


def test_a_run_that_failed_counts_as_the_worst() -> None:
    assert outcome(ONE, runs(ONE, (0.9, math.nan, 0.3)), "score")["median"] == 0.3
    failed = outcome(ONE, runs(ONE, (0.9, math.nan, math.nan)), "score")
    assert failed["median"] is None
    assert best([failed], "score") is None
    assert (
        outcome(ONE, [Run(run="", seed=0, metrics={"score": math.nan}, seconds=0)], "score")["median"] is None
    )


def test_results_are_averaged_over_the_cases_that_count_and_written(tmp_path: Path) -> None:
    scores = {"cola": (0.2, 0.4), "rte": (0.8, 0.6), "wnli": (0.1, 0.1)}
    found = [
        run
        for name, values in scores.items()
        for point, score in zip((ONE, TWO), values, strict=True)
        for run in runs(point, [score], name)
    ]
    request = ExperimentRequest(data="m", directory=tmp_path, seeds=(0,))
    listed = dict.fromkeys(scores, (ONE, TWO))
    search = Search(request=request, digest="d", recipe=RECIPE, recipe_name="r", cases=listed)
    search.write(found)
    table = json.loads((tmp_path / "results.json").read_text())
    assert table["schema"] == "peirce.finetune/1"
    assert table["average"] == pytest.approx((0.4 + 0.8) / 2)
    assert table["unaveraged"] == ["wnli"]
    assert table["runs"] == {"done": 6, "all": 6}
    assert table["cases"][0]["best"]["directory"] == "cola/two/seed-0"
    rows = list(csv.DictReader(io.StringIO((tmp_path / "results.csv").read_text())))
    assert [row["score"] for row in rows] == ["0.2", "0.4", "0.8", "0.6", "0.1", "0.1"]
    assert rows[1] | {"case": "cola", "train.lr": "2", "seed": "0", "error": ""} == rows[1]
    assert search.results(found[:2])["average"] is None
