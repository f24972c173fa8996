from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import attrs
import pytest
from command_line import exit_code as run
from toy_tasks import TRANSFORMER, Marked

from peirce.errors import TaskError
from peirce.registry import Registry
from peirce_training import TrainingOptions, read_settings, read_training, settings_by_part

TRAIN = tuple(
    f"--set={each}" for each in ("train.steps=4", "train.device=cpu", "batch=4", "task.examples=16")
)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text(TRANSFORMER.to_toml())
    return path


def test_train_then_evaluate(
    toy_registry: Registry, spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    assert (
        run("train", spec, "--task", "marked", *TRAIN, "--set", "model.dims.layers=2", "-o", out, "--json")
        == 0
    )
    trained = json.loads(capsys.readouterr().out)
    assert trained["schema"] == "peirce.train/1"
    assert trained["steps"] == 4
    record = json.loads((out / "training.json").read_text())
    assert record["task"]["options"] == {"tokens": 8, "length": 6, "examples": 16, "batch": 4}
    assert "layers = 2" in (out / "spec.toml").read_text()

    assert run("train", spec, "--task", "marked") == 2
    assert "give a directory for the trained model with -o" in capsys.readouterr().err
    assert run("train", spec, "--task", "marked", *TRAIN, "-o", out) == 2
    assert "already has a training" in capsys.readouterr().err
    assert run("evaluate", out, "--task", "marked", "--json") == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert evaluated["schema"] == "peirce.evaluate/1"
    assert evaluated["metrics"] == trained["metrics"]["test"]
    assert run("evaluate", out, "--split", "train") == 0
    table = capsys.readouterr().out
    assert "train" in table
    assert "accuracy" in table


def test_settings_as_flags_and_data_without_a_task_say_what_to_write(
    toy_registry: Registry, spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for flag, said in (
        ("--tokens", "--tokens is a setting; write --set task.tokens=VALUE"),
        ("--save-every", "write --set train.save_every=VALUE"),
        ("--save-evry", "the nearest is the setting train.save_every; write --set train.save_every=VALUE"),
        ("--nonsense", "Settings are written --set KEY=VALUE"),
    ):
        assert run("train", spec, "--task", "marked", flag, "3", "-o", tmp_path / "x") == 2
        assert said in " ".join(capsys.readouterr().err.split())
    (tmp_path / "my.csv").write_text("a,b,c\n1,2,3\n")
    assert run("train", tmp_path / "my.csv", "-o", tmp_path / "x") == 2
    assert f"`peirce train --data {tmp_path / 'my.csv'} -o DIR`" in capsys.readouterr().err
    given = ("train", spec, "--data", tmp_path / "my.csv", "-o", tmp_path / "x")
    assert run(*given) == 2
    assert "my.csv: its columns a, b, c tell no task; name the task with --task" in capsys.readouterr().err
    assert run(*given, "--task", "marked") == 2
    assert "the task 'marked' has no option data" in capsys.readouterr().err


def test_a_setting_that_is_false_by_default_is_a_flag_too(
    toy_registry: Registry, spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("train", spec, "--task", "marked", *TRAIN, "-o", tmp_path / "model", "--checkpointing")
    assert run(*given) == 0
    record = read_training(tmp_path / "model")
    assert record is not None
    assert record["training"]["checkpointing"] is True
    assert run(*given, "--checkpointing=false") == 2
    assert "write --set train.checkpointing=VALUE" in capsys.readouterr().err


def test_settings_are_listed(toy_registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "--settings", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["schema"] == "peirce.settings/1"
    names = [setting["name"] for setting in listed["settings"]]
    assert names == [f"train.{field.name}" for field in attrs.fields(TrainingOptions)]
    assert all(setting["meaning"] for setting in listed["settings"])
    assert run("train", "--settings", "--task", "marked") == 0
    table = capsys.readouterr().out
    assert "task.examples" in table
    assert "the examples of the training split" in table
    assert "0.0005" in table
    assert run("train", "--settings", "--task", "markd") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a task with --task"),
        (("--taks", "marked"), "unknown option '--taks'. Did you mean '--task'?"),
        (("-task", "marked"), "unknown option '-task'. Did you mean '--task'?"),
        (("--task", "markd"), "unknown task 'markd'. Did you mean 'marked'?"),
        (("--task", "marked", "--set", "batc=3"), "unknown setting 'batc'. Did you mean 'batch'?"),
        (("--task", "marked", "--set", "train.step=3"), "'train.step'. Did you mean 'train.steps'?"),
        (("--task", "marked", "--set", "batch"), "cannot read 'batch' as KEY=VALUE"),
        (("--task", "marked", "--set", "train.steps=few"), "settings: train.steps must be an integer"),
        (("--task", "marked", "--set", "batch=0"), "settings: task.batch must be >= 1"),
        (("--task", "marked"), "training needs either steps or epochs, and neither is given"),
        (("--task", "marked", "--resume", "--overwrite"), "give one of them"),
    ],
)
def test_mistakes_are_named(
    arguments: tuple[str, ...], message: str, toy_registry: Registry, spec: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert run("train", spec, *arguments, "-o", tmp_path / "model") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_an_option_without_its_value_is_named(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("-o", "--data"):
        assert run("train", spec, option) == 2
        assert f"Option '{option}' requires an argument" in capsys.readouterr().err


def test_a_path_below_a_file_is_named(
    toy_registry: Registry, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("train", spec, "--task", "marked", *TRAIN, "-o", spec / "model") == 2
    assert f"error: {spec / 'model'}: Not a directory; check the path" in capsys.readouterr().err


def test_mistakes_of_evaluate_are_named(
    toy_registry: Registry, spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    assert run("train", spec, "--task", "marked", *TRAIN, "-o", out) == 0
    capsys.readouterr()
    assert run("evaluate", tmp_path / "none", "--task", "marked") == 2
    assert "there is no trained model" in capsys.readouterr().err
    assert run("evaluate", spec) == 2
    assert "is a spec, which has no weights to evaluate; `peirce train" in capsys.readouterr().err
    assert run("evaluate", tmp_path) == 2
    message = capsys.readouterr().err
    assert f"there is no trained model at {tmp_path}: no {tmp_path / 'spec.toml'}" in message
    assert "or go on with --resume where a training was interrupted" in message
    half = tmp_path / "half"
    half.mkdir()
    shutil.copy(out / "spec.toml", half)
    assert run("evaluate", half) == 2
    assert "has no training.json, which would name its task; name one with --task" in capsys.readouterr().err
    assert run("evaluate", half, "--task", "marked") == 2
    assert "is not a complete saved model" in capsys.readouterr().err
    assert run("evaluate", out, "--set", "train.steps=3") == 2
    assert "leave out the settings train.steps" in capsys.readouterr().err
    assert run("evaluate", out, "--set", "tokens=9") == 2
    assert "are not those that" in capsys.readouterr().err
    (out / "training.json").write_text("{")
    assert run("evaluate", out) == 2
    assert "training.json cannot be read" in capsys.readouterr().err


def test_settings_are_sorted_by_what_they_set() -> None:
    settings = read_settings(
        ["batch=4", "task.length=5", "train.lr=0.1", 'train.schedule="cosine"', "model.dims.layers=2"], Marked
    )
    assert settings_by_part(settings) == (
        {"model.dims.layers": 2},
        {"batch": 4, "length": 5},
        {"lr": 0.1, "schedule": "cosine"},
    )
    assert read_settings(["train.test_split=2"], Marked) == {
        "train.test_split": "2"
    }  # a text, as it is written
    with pytest.raises(TaskError, match=r"unknown setting 'modle\.dims.layers'"):
        read_settings(["modle.dims.layers=2"], Marked)
    with pytest.raises(TaskError, match=r"batch was set to 4 before, which has no keys"):
        settings_by_part(read_settings(["batch=4", "batch.x=1"], Marked))
    assert settings_by_part({"task.a": {"b": 1}}, {"task.a.c": 2})[1] == {"a": {"b": 1, "c": 2}}
    lengths = settings_by_part({"train.epochs": 10, "task.a": 1}, {"train.steps": 5}, {"task.a": 2})
    assert lengths == ({}, {"a": 2}, {"steps": 5})
    assert settings_by_part({"train.steps": 5}, {"train.epochs": 1})[2] == {"epochs": 1}
    assert settings_by_part({"train.warmup_ratio": 0.1}, {"train.warmup": 5})[2] == {"warmup": 5}
    with pytest.raises(TaskError, match=r"'lr' does not begin with model\., task\. or train\."):
        settings_by_part({"lr": 1})


@pytest.mark.parametrize(
    "record", [{}, {"task": 3, "seed": 0}, {"task": {"name": "x", "options": 3}, "seed": 0}]
)
def test_a_damaged_record_of_a_training_is_one_sentence(record: dict[str, Any], tmp_path: Path) -> None:
    text = json.dumps({"schema": "peirce.training/1", **record})
    (tmp_path / "training.json").write_text(text)
    with pytest.raises(TaskError, match=r"training.json is damaged: it must have a task"):
        read_training(tmp_path)
    (tmp_path / "training.json").write_text("[" * 100_000)
    with pytest.raises(TaskError, match="cannot be read"):
        read_training(tmp_path)
