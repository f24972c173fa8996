"""Points of a search, and medians worked by hand."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from peirce.errors import TaskError
from peirce.experiments.finetune.grid import Case, Point, cases
from peirce.experiments.finetune.recipe import Grid, Recipe
from peirce.experiments.finetune.results import Results, Run, best, outcome
from peirce_kg.task import KgQaOptions
from peirce_text.glue.task import GlueOptions

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


def points(given: dict[str, Any], recipe: Recipe = RECIPE) -> list[Point]:
    (case,) = cases(recipe, given, None, GlueOptions)
    return list(case.points)


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
    (case,) = cases(Recipe(task="kgqa"), {"task.types": ["1p", "2p"]}, None, KgQaOptions)
    assert [point.name for point in case.points] == ["only"]
    assert case.points[0].settings["task.types"] == ["1p", "2p"]


def test_each_value_is_a_search_of_its_own() -> None:
    found = cases(RECIPE, {}, ("task.task", ["cola", "rte"]), GlueOptions)
    assert [(case.name, len(case.points)) for case in found] == [("cola", 4), ("rte", 1)]
    with pytest.raises(TaskError, match="'rte' twice"):
        cases(RECIPE, {}, ("task.task", ["rte", "rte"]), GlueOptions)


def test_a_recipe_without_a_grid_for_the_case_is_refused() -> None:
    only = Recipe(task="glue", grid=RECIPE.grid[:1])
    with pytest.raises(TaskError, match=r"it has one where task\.task is one of rte"):
        points({"task.task": "cola"}, only)


def run(point: Point, seed: int, score: float, case: str = "", error: str = "") -> Run:
    metrics = {} if error else {"score": score, "other": 10 * score}
    where = f"{case}/{point.name}/seed-{seed}"
    return Run(case=case, point=point, seed=seed, directory=where, metrics=metrics, seconds=1.0, error=error)


ONE, TWO = Point("one", {"train.lr": 1}, {}), Point("two", {"train.lr": 2}, {})


def test_the_median_over_seeds_counts_and_the_best_one_wins() -> None:
    first = outcome(ONE, [run(ONE, s, v) for s, v in enumerate((0.9, 0.1, 0.5))], RECIPE)
    second = outcome(TWO, [run(TWO, s, v) for s, v in enumerate((0.6, 0.7, 0.4))], RECIPE)
    assert (first.median, second.median) == (0.5, 0.6)
    assert second.medians == {"score": 0.6, "other": 6.0}
    found = best([first, second], RECIPE)
    assert found is second
    assert found.typical is second.runs[0]
    falling = Recipe(task="glue", metric="loss")
    lows = [
        outcome(p, [Run(case="", point=p, seed=0, directory="", metrics={"loss": v}, seconds=0)], falling)
        for p, v in ((ONE, 0.2), (TWO, 0.3))
    ]
    assert best(lows, falling) is lows[0]


def test_a_run_that_failed_counts_as_the_worst() -> None:
    runs = [run(ONE, 0, 0.9), run(ONE, 1, 0.0, error="not finite"), run(ONE, 2, 0.3)]
    assert outcome(ONE, runs, RECIPE).median == 0.3
    failed = outcome(ONE, [run(ONE, 0, 0.9), *(run(ONE, s, 0, error="x") for s in (1, 2))], RECIPE)
    assert failed.median is None
    assert best([failed], RECIPE) is None
    nan = outcome(ONE, [run(ONE, 0, math.nan)], RECIPE)
    assert nan.median is None


def test_results_are_averaged_over_the_cases_that_count_and_written(tmp_path: Path) -> None:
    listed = [Case(name, (ONE, TWO)) for name in ("cola", "rte", "wnli")]
    scores = {"cola": (0.2, 0.4), "rte": (0.8, 0.6), "wnli": (0.1, 0.1)}
    runs = [
        run(point, 0, score, name)
        for name, values in scores.items()
        for point, score in zip((ONE, TWO), values, strict=True)
    ]
    facts: dict[str, Any] = {"model": "m", "digest": "d", "recipe_name": "r", "seeds": (0,)}
    results = Results.of(listed, runs, recipe=RECIPE, **facts)
    assert results.average == pytest.approx((0.4 + 0.8) / 2)
    results.write(tmp_path)
    table = json.loads((tmp_path / "results.json").read_text())
    assert table["schema"] == "peirce.finetune/1"
    assert table["unaveraged"] == ["wnli"]
    assert table["runs"] == {"done": 6, "all": 6}
    assert table["cases"][0]["best"]["directory"] == "cola/two/seed-0"
    rows = list(csv.DictReader(io.StringIO((tmp_path / "results.csv").read_text())))
    assert [row["score"] for row in rows] == ["0.2", "0.4", "0.8", "0.6", "0.1", "0.1"]
    assert rows[1] | {"case": "cola", "train.lr": "2", "seed": "0", "error": ""} == rows[1]
    partly = Results.of(listed, runs[:2], recipe=RECIPE, **facts)
    assert partly.average is None
