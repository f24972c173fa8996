"""`peirce finetune` on GLUE's small files: runs, results, what is not run twice, what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from glue_files import write_glue, write_vocabulary
from small_specs import FOLNET
from typer.testing import CliRunner

from peirce.compose import build, load
from peirce_text.glue.task import Glue
from peirce_text.text.tokenizer import Tokenizer
from peirce_training.cli import evaluate


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model with its tokenizer, as pretraining leaves it."""
    folder = tmp_path_factory.mktemp("pretrained")
    tokenizer = Tokenizer.load(write_vocabulary(folder))
    spec = FOLNET.replace({"model.input.vocabulary": tokenizer.vocabulary, "model.dims.layers": 1})
    build(spec, seed=3).save(folder / "model", {"tokenizer.json": tokenizer.content})
    return folder / "model"


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_glue(tmp_path_factory.mktemp("glue"))


@pytest.fixture
def finetune(pretrained: Path, glue: Path) -> Callable[..., tuple[int, str]]:
    """The command, in this process."""
    from peirce.errors import PeirceError
    from peirce_training.finetune.cli import finetune as command

    app = typer.Typer()
    app.command()(command)

    def run(
        out: Path, *arguments: str, model: Path = pretrained, data: Path | None = glue
    ) -> tuple[int, str]:
        folder = ["--set", f"folder={data}"] if data is not None else []
        fixed = ["--set", "train.threads=1", "--set", "train.device=cpu"]
        result = CliRunner().invoke(
            app, [str(model), "--task", "glue", "-o", str(out), *folder, *fixed, *arguments]
        )
        if isinstance(result.exception, PeirceError):
            return 2, str(result.exception)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout

    return run


SMALL = (
    "--each", "task=rte,wnli", "--seeds", "0",
    "--set", "train.epochs=1", "--set", "train.lr=[1e-3, 1e-2]", "--set", "batch_size=2",
    "--set", "train.warmup_ratio=0",
)  # fmt: skip


def test_a_search_is_run_once_and_its_models_are_evaluated(
    finetune: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    code, text = finetune(tmp_path, *SMALL, "--json")
    assert code == 0
    results = json.loads(text)
    assert results["recipe"] == "glue-16g"
    assert results["runs"] == {"done": 4, "all": 4}
    assert results["average"] is None  # of one task that counts
    assert [case["case"] for case in results["cases"]] == ["rte", "wnli"]
    assert [point["point"] for point in results["cases"][0]["points"]] == ["lr-0.001", "lr-0.01"]
    directory = tmp_path / results["cases"][0]["best"]["directory"]
    model = load(directory)
    assert [head.use for head in model.spec.heads] == ["classification"]
    assert not (directory / "checkpoints").exists()

    # The same again runs nothing, and removes what a search that was killed left of a checkpoint.
    (directory / "checkpoints" / "step-00000002").mkdir(parents=True)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("weights.safetensors")}
    assert len(before) == 4
    code, text = finetune(tmp_path, *SMALL, "--json")
    assert code == 0
    again = json.loads(text)
    assert again == results
    assert not (directory / "checkpoints").exists()
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("weights.safetensors")}

    # One that is missing is run, and gives the same.
    shutil.rmtree(directory)
    code, text = finetune(tmp_path, *SMALL)
    assert code == 0
    assert "all 4 runs are in" in text
    table = json.loads((tmp_path / "results.json").read_text())
    for case, before in zip(table["cases"], results["cases"], strict=True):
        assert [point["medians"] for point in case["points"]] == [p["medians"] for p in before["points"]]

    # Other settings in the same place are refused.
    code, text = finetune(tmp_path, *SMALL, "--set", "train.weight_decay=0.5")
    assert code == 2
    assert "was trained with other settings: train.weight_decay is 0.5 and was" in text

    app = typer.Typer()
    app.command()(evaluate)
    done = CliRunner().invoke(app, [str(directory), "--split", "valid", "--json"])
    assert done.exit_code == 0, done.output
    metrics = json.loads(done.stdout)["metrics"]
    assert metrics == table["cases"][0]["best"]["medians"]


def test_a_run_that_diverges_is_listed_and_the_others_go_on(
    finetune: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    code, text = finetune(
        tmp_path, "--seeds", "0,1", "--set", "task=stsb", "--set", "train.lr=[1e-3, 1e30]",
        "--set", "train.epochs=3", "--set", "batch_size=2", "--set", "train.warmup_ratio=0", "--json",
    )  # fmt: skip
    assert code == 1
    results = json.loads(text)
    sound, failed = results["cases"][0]["points"]
    assert [run["error"] for run in sound["runs"]] == [None, None]
    scores = [run["metrics"]["score"] for run in sound["runs"]]
    assert sound["median"] == pytest.approx(sum(scores) / 2)
    assert "train.lr" in failed["runs"][0]["error"]
    assert failed["median"] is None
    assert results["cases"][0]["best"]["point"] == sound["point"]


def test_the_plan_lists_runs_and_runs_none(finetune: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    code, text = finetune(tmp_path / "out", "--each", "task=cola,mnli", "--plan", "--json")
    assert code == 0
    points = json.loads(text)["points"]
    assert [sum(point["case"] == name for point in points) for name in ("cola", "mnli")] == [48, 12]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "tsak=rte"), "Did you mean 'task'"),
        (("--each", "task"), "give an option of the task and its values"),
        (("--each", "train.lr=1,2"), "not an option of the task 'glue'"),
        (("--seeds", "1,x"), "--seeds 1,x: give whole numbers"),
        (("--seeds", "1,1"), "--seeds 1,1: give whole numbers"),
        (("--recipe", "squad-16g"), "is for the task squad"),
        (("--set", "task=rtee", "--seeds", "0"), "Did you mean 'rte'"),
    ],
)
def test_mistakes_are_said_before_anything_runs(
    finetune: Callable[..., tuple[int, str]], tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, text = finetune(tmp_path / "out", *arguments)
    assert code == 2
    assert message in text
    assert not (tmp_path / "out").exists()


def test_a_model_without_a_tokenizer_needs_one(
    finetune: Callable[..., tuple[int, str]], pretrained: Path, tmp_path: Path
) -> None:
    model = tmp_path / "imported"
    load(pretrained).save(model)
    short = ("--set", "task=rte", "--seeds", "0", "--set", "train.epochs=1", "--set", "train.lr=1e-3")
    few = (*short, "--set", "batch_size=2", "--set", "train.warmup_ratio=0")
    code, text = finetune(tmp_path / "out", *few, model=model)
    assert code == 2
    assert "set task.tokenizer" in text
    tokenizer = pretrained / "assets" / "tokenizer.json"
    code, _ = finetune(tmp_path / "out", *few, "--set", f"tokenizer={tokenizer}", model=model)
    assert code == 0
    assert finetune(model, *few, model=model)[0] == 2
    code, text = finetune(tmp_path / "other", *few, model=tmp_path / "nothing")
    assert code == 2
    assert "there is no saved model" in text


def test_an_interrupted_run_goes_on_from_its_checkpoint(
    finetune: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (
        "--seeds", "0", "--set", "task=rte", "--set", "train.lr=1e-2", "--set", "train.epochs=2",
        "--set", "batch_size=2", "--set", "train.warmup_ratio=0", "--json",
    )  # fmt: skip
    whole = json.loads(finetune(tmp_path / "whole", *arguments)[1])

    def interrupted(*_: object) -> dict[str, float]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Glue, "metrics", interrupted)  # the steps are done by then, and in a checkpoint
        finetune(tmp_path / "cut", *arguments)
    (run,) = (tmp_path / "cut").rglob("seed-0")
    assert not (run / "training.json").exists()
    assert list((run / "checkpoints").iterdir())
    code, text = finetune(tmp_path / "cut", *arguments)
    assert code == 0
    again = json.loads(text)
    assert again["cases"][0]["best"]["median"] == whole["cases"][0]["best"]["median"]
    weights = [next((tmp_path / name).rglob("weights.safetensors")).read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]
