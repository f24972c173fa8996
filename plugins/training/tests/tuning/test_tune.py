"""`peirce tune` on a small task: what it tries, what it keeps when it is killed, the line that repeats the best."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from command_line import exit_code as run
from safetensors.torch import load_file
from toy_tasks import TRANSFORMER, Marked

import peirce.extras
from peirce.errors import TaskError
from peirce.registry import VARIABLE, Registry
from peirce_training.tuning.axes import Axis

SMALL = tuple(
    part
    for each in (
        "train.steps=4",
        "train.evaluate_every=1",
        "train.threads=1",
        "train.device=cpu",
        "examples=16",
    )
    for part in ("--set", each)
)
OVER = ("--over", "train.lr=1e-4..1e-1:log", "--over", "batch=4,8")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text(TRANSFORMER.to_toml())
    return path


def plain(results: dict[str, Any]) -> list[Any]:
    """What two searches have in common, if the second was killed on its way."""
    return [(each["settings"], each["state"], each["value"]) for each in results["trials"]]


def tuned(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run("tune", *arguments, "--json") == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_killed_search_goes_on_to_what_a_whole_one_finds(
    toy_registry: Registry,
    registry_file: Path,
    spec: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    search = (spec, "--task", "marked", *SMALL, *OVER, "--trials", "7")
    whole = tuned(capsys, *search, "-o", tmp_path / "whole")
    assert whole["metric"] == "loss"
    assert {each["state"] for each in whole["trials"]} == {"whole", "ended early"}
    best = whole["best"]
    assert best["value"] == min(each["value"] for each in whole["trials"] if each["state"] == "whole")
    assert (tmp_path / "whole" / "tuning.png").read_bytes().startswith(b"\x89PNG")

    # Its line trains the same model.
    assert run(*shlex.split(best["command"])[1:]) == 0
    one, two = (load_file(tmp_path / "whole" / run / "weights.safetensors") for run in (best["run"], "best"))
    assert all((one[name] == two[name]).all() for name in one)

    words = ("tune", *search, "-o", tmp_path / "killed")
    environment = {**os.environ, VARIABLE: str(registry_file), "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(Path(sys.modules[Marked.__module__].__file__ or "").parent)
    command = [sys.executable, "-m", "peirce", *map(str, words)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (tmp_path / "killed" / "trial-002").exists():
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert 0 < len(json.loads((tmp_path / "killed" / "results.json").read_text())["trials"]) < 7
    assert plain(tuned(capsys, *search, "-o", tmp_path / "killed")) == plain(whole)
    # All are done, and nothing is trained again; what a kill left of a training that ended is removed.
    shutil.copytree(
        tmp_path / "whole" / "best" / "checkpoints", tmp_path / "whole" / "trial-000" / "checkpoints"
    )
    assert tuned(capsys, *search, "-o", tmp_path / "whole") == whole
    assert not (tmp_path / "whole" / "trial-000" / "checkpoints").exists()
    assert run("tune", *search, "--seed", "1", "-o", tmp_path / "whole") == 2
    assert "has a search of other settings: --seed is 1 and was 0" in capsys.readouterr().err


def test_few_points_are_all_tried_and_each_once(
    toy_registry: Registry, spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--over", "model.dims.layers=1,2", "--over", "train.schedule=linear,constant")
    search = (spec, "--task", "marked", *SMALL, *few, "--metric", "accuracy", "-o", tmp_path / "few")
    found = tuned(capsys, *search)
    points = [tuple(each["settings"].values()) for each in found["trials"]]
    assert sorted(points) == [(1, "constant"), (1, "linear"), (2, "constant"), (2, "linear")]
    assert found["goal"] == "maximize"
    assert found["best"]["value"] == max(
        each["value"] for each in found["trials"] if each["state"] == "whole"
    )
    assert run("tune", *search) == 0
    said = capsys.readouterr().out
    assert "4 trainings, by accuracy on the validation split" in said
    assert f"peirce train {tmp_path / 'few' / 'best.toml'} --task marked" in said


def test_a_training_that_fails_is_the_worst_of_others(
    toy_registry: Registry, spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search = (spec, "--task", "marked", *SMALL, "--over", "train.clip_norm=0,1", "-o", tmp_path / "failing")
    found = tuned(
        capsys, *search, "--set", "train.lr=1e18", "--set", "train.optimizer=adamw", "--trials", "2", code=1
    )
    assert [each["state"] for each in found["trials"]] == ["failed", "failed"]
    assert all(
        "the loss of step" in each["error"] or "no finite" in each["error"] for each in found["trials"]
    )
    assert found["best"] is None
    assert (
        run("tune", spec, "--task", "marked", *SMALL, *OVER, "--metric", "acuracy", "-o", tmp_path / "b") == 2
    )
    assert (
        "the first 3 trainings failed, the last one: train.monitor: unknown metric" in capsys.readouterr().err
    )


def test_a_training_that_gives_no_number_ends_no_search(
    toy_registry: Registry, spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("--set", "train.epochs=1", "--set", "train.device=cpu", "--set", "examples=16")
    over = ("--over", "train.valid_split=nothing,valid")
    found = tuned(capsys, spec, "--task", "marked", *settings, *over, "-o", tmp_path / "s")
    assert [each["state"] for each in found["trials"]] == ["failed", "whole"]
    assert "never evaluated on the split 'nothing'" in found["trials"][0]["error"]


def test_a_point_that_was_killed_before_it_was_trained_is_tried(
    toy_registry: Registry,
    spec: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = ("--over", "train.schedule=cosine,linear,thirds")
    search = (spec, "--task", "marked", *SMALL, *over, "-o", tmp_path / "s")
    with monkeypatch.context() as patch:
        patch.setattr(Axis, "suggest", Mock(side_effect=KeyboardInterrupt))
        assert run("tune", *search) == 130
    found = tuned(capsys, *search)
    assert {each["settings"]["train.schedule"] for each in found["trials"]} == {"cosine", "linear", "thirds"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train.lrr=1..2", "Did you mean 'train.lr'?"),
        ("train.lr=1..0.1", "the lower one first"),
        ("train.lr=0..0.1:log", "with :log both above zero"),
        ("train.lr=0.1..1:lgo", "give two numbers"),
        ("train.lr", "give KEY=LOW..HIGH, such as"),
        ("batch=8", "not two different values"),
        ("batch=8,8", "not two different values"),
    ],
)
def test_what_cannot_be_searched_is_refused(text: str, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        Axis.parse(text, Marked)


def test_a_range_has_the_type_of_its_setting() -> None:
    parsed = [Axis.parse(text, Marked) for text in ("train.lr=1..2", "batch=2..8", "train.lr=1e-5..1e-3:log")]
    assert [type(each.low) for each in parsed] == [float, int, float]
    assert [each.key for each in parsed] == ["train.lr", "task.batch", "train.lr"]
    assert parsed[2].log


def test_what_is_missing_or_wrong_is_said_before_anything_is_trained(
    toy_registry: Registry,
    spec: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = ("-o", tmp_path / "out")
    task = (spec, "--task", "marked", *SMALL)
    for words, said in (
        ((*task, *out), "Missing option '--over'"),
        ((*task, *OVER), "Missing option '--output'"),
        ((*task, *OVER, "--set", "batch=4", *out), "task.batch is given twice"),
        ((*task, "--over", "train.schedule=linear,curved", *out), "must be 'linear'"),
    ):
        assert run("tune", *words) == 2
        assert said in capsys.readouterr().err
    monkeypatch.setattr(peirce.extras, "find_spec", lambda name: None)
    assert run("tune", *task, *OVER, *out) == 2
    assert "run `pip install 'peirce-training[tune]'`" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
