"""Recipes: Table 9 of FOLNet to the letter, and what a recipe file may not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shared_folder import ROOT

from peirce.errors import PeirceError, TaskError
from peirce_text.clutrr.task import ClutrrOptions
from peirce_text.folio.task import FolioOptions
from peirce_text.glue.subtasks import SUBTASKS
from peirce_text.glue.task import GlueOptions
from peirce_text.squad.task import SquadOptions
from peirce_training import training_options
from peirce_training.finetune.recipe import cases, load_recipe, ready_recipes, recipe_of

OPTIONS = {"glue": GlueOptions, "squad": SquadOptions, "folio": FolioOptions, "clutrr": ClutrrOptions}
SMALL, BIG = ("cola", "stsb", "mrpc", "rte"), ("mnli", "qqp", "qnli", "sst2")
TABLE_9: dict[str, dict[str, list[Any]]] = {
    "small": {"epochs": [5, 10, 20], "batch_size": [16, 32], "warmup_ratio": [0.06, 0.25]},
    "big": {"epochs": [2, 3, 5], "batch_size": [32], "warmup_ratio": [0.06]},
    "squad": {"epochs": [2, 3], "batch_size": [16, 32], "warmup_ratio": [0.06]},
    "folio": {"epochs": [60, 80], "batch_size": [16, 32], "warmup_ratio": [0.06, 0.25]},
}
LENGTH = {"small": 128, "big": 128, "squad": 384, "folio": 512}
RATES = {
    ("small", "16g"): [6e-5, 8e-5, 1e-4, 2e-4],
    ("big", "16g"): [6e-5, 8e-5, 1e-4, 2e-4],
    ("squad", "16g"): [8e-5, 9e-5, 1e-4],
    ("folio", "16g"): [6e-5, 7e-5, 8e-5],
    ("small", "160g"): [1e-5, 2e-5, 3e-5, 4e-5],
    ("big", "160g"): [1e-5, 2e-5, 3e-5, 4e-5],
    ("squad", "160g"): [1e-5, 2e-5, 3e-5, 4e-5],
    ("folio", "160g"): [1e-5, 2e-5, 3e-5],
}
COLUMNS = [("glue", name, "small") for name in SMALL] + [("glue", name, "big") for name in BIG]
COLUMNS += [("squad", "", "squad"), ("folio", "", "folio")]


@pytest.mark.parametrize("size", ["16g", "160g"])
@pytest.mark.parametrize(("task", "name", "column"), COLUMNS)
def test_table_9(task: str, name: str, column: str, size: str) -> None:
    given = {"task.task": name} if name else {}
    recipe = load_recipe(f"{task}-{size}")
    found = cases(recipe, given)[""]
    assert len(recipe.seeds) == 5
    points = [{key.rpartition(".")[2]: value for key, value in point.settings.items()} for point in found]
    wanted = {**TABLE_9[column], "lr": RATES[column, size]}
    count = 1
    for key, values in wanted.items():
        assert sorted({point[key] for point in points}) == values
        count *= len(values)
    assert len(points) == len({point.name for point in found}) == count
    for point in points:
        assert (point["length"], point["schedule"], point["dropout"]) == (LENGTH[column], "linear", 0.1)
        assert (point["beta1"], point["beta2"], point["epsilon"]) == (0.9, 0.999, 1e-6)
        assert (point["clip_norm"], point["weight_decay"]) == (0.0, 0.01)
        assert point["optimizer"] == "adam_uncorrected"


@pytest.mark.parametrize("name", ready_recipes())
def test_every_setting_of_a_ready_recipe_is_one(name: str) -> None:
    recipe = load_recipe(name)
    listed = [{"task.task": name} for name in SUBTASKS] if recipe.task == "glue" else [{}]
    assert recipe.source
    for given in listed:
        for point in cases(recipe, given)[""]:
            options = {k[6:]: v for k, v in point.settings.items() if k.startswith("train.")}
            assert training_options(options).epochs == point.settings["train.epochs"]
            OPTIONS[recipe.task](**{k[5:]: v for k, v in point.settings.items() if k.startswith("task.")})


def test_a_task_has_one_recipe_of_its_own() -> None:
    defaults = [load_recipe(name).task for name in ready_recipes() if load_recipe(name).default]
    assert sorted(defaults) == ["clutrr", "folio", "glue", "squad"]
    assert recipe_of("glue")[0] == "glue-16g"
    assert recipe_of("kgqa") == ("", recipe_of("kgqa")[1])
    assert not recipe_of("kgqa")[1].grid
    with pytest.raises(TaskError, match=r"unknown recipe 'glue-16'\. Did you mean 'glue-16g'"):
        load_recipe("glue-16")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task = ", "not valid TOML"),
        ('task = "glue"\nsplits = "valid"', "unknown key 'splits' of a recipe"),
        ('task = "glue"\nseeds = []', "seeds"),
        ("format = 2", "format 2 is newer than 1"),
        ('format = 1\nsplit = "valid"', "task"),
    ],
)
def test_a_recipe_that_cannot_be_used_says_why(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(PeirceError, match=message):
        load_recipe(path)


def test_the_recipe_of_the_page_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guide" / "fine-tune.md").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    recipe = load_recipe(tmp_path / "mine.toml")
    counts = {name: len(cases(recipe, {"task.task": name})[""]) for name in ("rte", "cola")}
    assert counts == {"rte": 2, "cola": 6}


def test_a_spec_is_no_recipe(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text("[model]\n")
    for name in ("bert-base", str(tmp_path / "spec.toml")):
        with pytest.raises(TaskError, match="is a spec, not a recipe; `peirce train"):
            load_recipe(name)
