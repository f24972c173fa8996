"""A training that is killed and resumed gives what one that was never interrupted gives, to the bit."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import killed_trainings
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_tasks import FOLNET, KILL_AT, KILL_IN_CHECKPOINT, TRANSFORMER, Marked, MarkedOptions, StoppedError

from peirce.errors import TaskError
from peirce.files import read_json, write_json
from peirce.registry import Registry
from peirce_training import Checkpoints, TrainingOptions, TrainResult, train
from peirce_training.checkpoints import CheckpointWarning

OPTIONS = TrainingOptions(
    steps=12, lr=1e-2, warmup=3, save_every=5, evaluate_every=4, monitor="accuracy", threads=1, device="cpu"
)

UNMEASURED = attrs.evolve(OPTIONS, evaluate_every=0)


def go(
    directory: Path, parts: Registry, *, fail_at: int = 0, options: TrainingOptions = OPTIONS, **more: Any
) -> TrainResult:
    task = Marked(more.pop("task_options", MarkedOptions(batch=16)), fail_at)
    return train(more.pop("spec", FOLNET), task, options, directory, registry=parts, **more)


@pytest.fixture(scope="module")
def trained(parts: Registry, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainResult]:
    """A training that ended, for tests to copy."""
    folder = tmp_path_factory.mktemp("trained")
    return folder, go(folder, parts)


@pytest.fixture
def first(trained: tuple[Path, TrainResult], tmp_path: Path) -> TrainResult:
    """What it gave; its folder is `tmp_path`."""
    shutil.copytree(trained[0], tmp_path, dirs_exist_ok=True)
    return trained[1]


@pytest.fixture(scope="module")
def stopped(parts: Registry, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that failed at its last step and kept two checkpoints."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(StoppedError):
        go(folder, parts, options=UNMEASURED, spec=TRANSFORMER, fail_at=12)
    return folder


def weights(directory: Path) -> bytes:
    return (directory / "weights.safetensors").read_bytes()


def test_killed_processes_resume_to_the_bit(
    parts: Registry, peirce_command: Callable[..., Any], tmp_path: Path
) -> None:
    whole = go(tmp_path / "whole", parts, seed=5)
    directory = tmp_path / "killed"
    (tmp_path / "spec.toml").write_text(FOLNET.to_toml())
    changed = ("steps", "lr", "warmup", "save_every", "evaluate_every", "monitor", "threads", "device")
    sets = [f"--set=train.{key}={getattr(OPTIONS, key)}" for key in changed]
    given = ("--task=marked", "--set=batch=16", *sets, "--seed=5", "-o", directory)
    command = ["train", tmp_path / "spec.toml", *given]

    # Between two checkpoints; while one is written, after the evaluation at step 8; then to the end.
    for kill in ({KILL_AT: "8"}, {KILL_IN_CHECKPOINT: "10"}):
        died = peirce_command(*command, "--resume", **kill)
        assert died.returncode == -signal.SIGKILL, died.stderr
        assert [p.name for p in Checkpoints(directory, 1).paths()] == ["step-00000005"]
        assert not (directory / "training.json").exists()
    assert (directory / "checkpoints" / ".step-00000010.writing").is_dir()
    done = peirce_command(*command, "--resume")
    assert done.returncode == 0, done.stderr

    found, damaged = Checkpoints(directory, 1).newest()
    assert found is not None
    assert not damaged
    assert tuple(found.tensors["losses"]["losses"].tolist()) == whole.losses
    assert weights(directory) == weights(tmp_path / "whole")
    recorded = json.loads((directory / "metrics.json").read_text())
    assert recorded == json.loads((tmp_path / "whole" / "metrics.json").read_text())
    assert [p.name for p in (directory / "checkpoints").iterdir() if p.name.startswith(".")] == []


@pytest.mark.thorough
def test_a_training_killed_again_and_again_ends_as_if_nothing_had_been(
    parts: Registry, tmp_path: Path
) -> None:
    """By SIGKILL, in steps and while checkpoints are written, renamed and removed."""
    options = attrs.evolve(OPTIONS, save_every=1, keep=1)
    whole = go(tmp_path / "whole", parts, seed=5, options=options)
    spec = FOLNET.replace({"model.input.vocabulary": 10})
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    given = {key: value for key, value in attrs.asdict(options).items() if value is not None}
    (tmp_path / "options.json").write_text(json.dumps(given))
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(killed_trainings.__file__).parent),
    }
    subprocess.run(
        [sys.executable, killed_trainings.__file__, str(tmp_path), "20", "9"],
        env=environment,
        check=True,
        timeout=600,
    )
    deaths = json.loads((tmp_path / "deaths.json").read_text())
    killed = [death["place"] for death in deaths if death["status"] == -signal.SIGKILL]
    assert killed.count("file") >= 2
    assert killed.count("loss") >= 2
    assert deaths[-1]["status"] == 0
    steps = [max(death["left"], default="") for death in deaths]
    assert steps == sorted(steps)  # a checkpoint that is there stays until a newer one is
    assert len(set(steps)) > 3
    found, damaged = Checkpoints(tmp_path / "model", 1).newest()
    assert [path.name for path in (tmp_path / "model" / "checkpoints").iterdir()] == [steps[-1]]
    assert found is not None
    assert not damaged
    assert tuple(found.tensors["losses"]["losses"].tolist()) == whole.losses
    assert weights(tmp_path / "model") == weights(tmp_path / "whole")


@functools.cache
def _whole(parts: Registry, options: TrainingOptions) -> tuple[tuple[float, ...], bytes]:
    with tempfile.TemporaryDirectory() as folder:
        result = go(Path(folder), parts, options=options, spec=TRANSFORMER)
        return result.losses, weights(Path(folder))


@settings(max_examples=5)
@given(
    fail_at=st.integers(min_value=1, max_value=24),
    save_every=st.sampled_from([1, 2, 5, 0]),
    accumulate=st.sampled_from([1, 2]),
    patience=st.sampled_from([0, 2]),
)
def test_a_training_that_fails_anywhere_resumes_to_the_bit(
    parts: Registry, fail_at: int, save_every: int, accumulate: int, patience: int
) -> None:
    options = attrs.evolve(OPTIONS, accumulate=accumulate, patience=patience, evaluate_every=2)
    losses, saved = _whole(parts, options)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        options = attrs.evolve(options, save_every=save_every)
        if fail_at <= accumulate * len(losses):
            with pytest.raises(StoppedError):
                go(directory, parts, options=options, spec=TRANSFORMER, fail_at=fail_at)
        if not Checkpoints(directory, 1).paths():
            with pytest.warns(
                CheckpointWarning, match="has no checkpoint; training starts from the beginning"
            ):
                result = go(directory, parts, options=options, spec=TRANSFORMER, resume=True)
        else:
            result = go(directory, parts, options=options, spec=TRANSFORMER, resume=True)
        assert result.losses == losses
        assert weights(directory) == saved


def test_resuming_a_finished_training_changes_nothing(
    parts: Registry, first: TrainResult, tmp_path: Path
) -> None:
    before = weights(tmp_path)
    again = go(tmp_path, parts, resume=True, fail_at=1)
    assert again.losses == first.losses
    assert again.metrics == first.metrics
    assert weights(tmp_path) == before


def test_a_finished_training_goes_on_for_more_steps(
    parts: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    whole = attrs.evolve(OPTIONS, schedule="constant")
    losses, saved = _whole(parts, whole)
    console = Console(width=1000)
    go(tmp_path, parts, options=attrs.evolve(whole, steps=8), spec=TRANSFORMER)
    result = go(tmp_path, parts, options=whole, spec=TRANSFORMER, resume=True, console=console)
    assert "12 steps in place of 8, on from step 8; the learning rate there is" in capsys.readouterr().out
    assert (result.losses, weights(tmp_path)) == (losses, saved)
    with pytest.raises(TaskError, match=r"is 12 steps far, and 8 are asked for; raise train\.epochs"):
        go(tmp_path, parts, options=attrs.evolve(whole, steps=8), spec=TRANSFORMER, resume=True)


@pytest.mark.parametrize(
    ("file", "how"),
    [
        ("model.safetensors", "flipped"),
        ("optimizer.safetensors", "truncated"),
        ("state.json", "flipped"),
        ("manifest.json", "truncated"),
        ("losses.safetensors", "absent"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(
    file: str,
    how: str,
    parts: Registry,
    stopped: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from rich.console import Console

    losses, saved = _whole(parts, UNMEASURED)
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    newest = tmp_path / "checkpoints" / "step-00000010"
    _damage(newest / file, how)
    capsys.readouterr()
    console = Console(width=1000)
    result = go(tmp_path, parts, options=UNMEASURED, spec=TRANSFORMER, resume=True, console=console)
    said = capsys.readouterr().out
    assert f"checkpoint {newest} is damaged: {file}" in said
    assert f"resuming from {newest.parent / 'step-00000005'} instead" in said
    assert result.losses == losses
    assert weights(tmp_path) == saved
    _, damaged = Checkpoints(tmp_path, 2).newest()
    assert damaged == []
    assert [p.name for p in Checkpoints(tmp_path, 2).paths()] == ["step-00000010", "step-00000012"]


def _damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "absent":
        path.unlink()
        return
    if how == "truncated":
        del content[len(content) // 2 :]
    else:
        content[len(content) * 2 // 3] ^= 1
    path.write_bytes(content)


@pytest.mark.usefixtures("first")
def test_nothing_but_damaged_checkpoints_is_refused(parts: Registry, tmp_path: Path) -> None:
    for path in Checkpoints(tmp_path, 2).paths():
        _damage(path / "model.safetensors", "flipped")
    with pytest.raises(
        TaskError, match=r"step-00000012 is damaged.*step-00000010 is damaged.*There is no older one"
    ):
        go(tmp_path, parts, resume=True)


@pytest.mark.usefixtures("first")
def test_a_checkpoint_holds_no_pickle_and_one_of_a_newer_format_is_refused(
    parts: Registry, tmp_path: Path
) -> None:
    paths = Checkpoints(tmp_path, 2).paths()
    assert {file.suffix for path in paths for file in path.iterdir()} == {".json", ".safetensors"}
    manifest = paths[-1] / "manifest.json"
    write_json(manifest, {**read_json(manifest), "format": 2})
    with pytest.raises(TaskError, match=r"format 2, newer than 1.*upgrade peirce"):
        go(tmp_path, parts, resume=True)


@pytest.mark.usefixtures("first")
def test_another_training_is_not_resumed(parts: Registry, tmp_path: Path) -> None:
    for message, change in {
        "train.lr is 0.02 and was 0.01": {"options": attrs.evolve(OPTIONS, lr=0.02)},
        "seed is 1 and was 0": {"seed": 1},
        "task.batch is 8 and was 16": {"task_options": MarkedOptions(batch=8)},
        "model.regularisation.dropout is 0.2 and was 0.1": {
            "spec": FOLNET.replace({"model.regularisation.dropout": 0.2})
        },
        "assets/tokens.txt changed": {"task_options": MarkedOptions(batch=16, tokens=9)},
    }.items():
        with pytest.raises(TaskError, match="belongs to another training") as raised:
            go(tmp_path, parts, resume=True, **change)
        assert message in str(raised.value)


def test_other_intervals_and_threads_may_be_resumed_and_threads_are_mentioned(
    parts: Registry, first: TrainResult, tmp_path: Path
) -> None:
    options = attrs.evolve(OPTIONS, save_every=1, log_every=1, keep=1, threads=2)
    with pytest.warns(
        CheckpointWarning, match="written with 1 threads and this run has 2.*not equal to the bit"
    ):
        again = go(tmp_path, parts, options=options, resume=True)
    assert again.losses == first.losses
