"""`peirce pretrain`, whole: the loss falls, interrupted runs resume to the bit, processes add up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import exit_code as run
from safetensors.torch import load_file
from small_texts import RECIPE

from peirce.compose import load
from peirce_text.text.tokenizer import Tokenizer


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(RECIPE)
    return path


def losses(directory: Path) -> list[float]:
    newest = max((directory / "checkpoints").iterdir())
    return load_file(newest / "losses.safetensors")["losses"].tolist()


def test_the_masked_words_of_generated_text_are_learnt(
    recipe: Path, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    data = ("--data", texts / "train-0.txt", texts / "train-1.txt", "--valid", texts / "valid.txt")
    assert run("pretrain", recipe, *data, "-o", out, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["schema"], printed["recipe"], printed["steps"]) == ("peirce.pretrain/1", "tiny", 160)
    during = json.loads((out / "metrics.json").read_text())["during_training"]
    assert [entry["step"] for entry in during] == [80, 160]
    metrics = printed["metrics"]["test"]
    # Guessed at random a token costs ln 140 = 4.9, by its frequency alone 2.8, and by place and topic 3/7 ln 3 = 0.5.
    assert metrics["mlm_loss"] < during[0]["metrics"]["mlm_loss"] < 2.8
    assert metrics["mlm_loss"] < 2.3
    assert set(metrics) == {"loss", "mlm_loss", "mlm_accuracy", "pair_loss", "pair_accuracy"}
    record = json.loads((out / "training.json").read_text())
    assert record["training"]["accumulate"] == 2
    assert record["task"]["options"]["tokenizer"] == str(out / "tokenizer.json")
    facts = json.loads((out / "data.json").read_text())
    assert [Path(shard["shard"]).name for shard in facts["train"]["shards"]] == ["train-0.txt", "train-1.txt"]
    model = load(out)
    assert sorted(model.heads) == ["mlm", "sop"]
    assert Tokenizer.load(out / "assets").vocabulary == 140
    assert model.spec.input.vocabulary == 144

    assert run("evaluate", out, "--split", "valid", "--json") == 0
    again = json.loads(capsys.readouterr().out)["metrics"]
    assert again == pytest.approx(metrics, rel=1e-6)


def test_an_interrupted_run_resumes_to_the_bit_and_only_on_the_same_text(
    recipe: Path, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    shutil.copytree(texts, data)
    short = ("--set", "train.steps=8", "--set", "train.save_every=4", "--set", "batch_size=16")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for out in (whole, cut):
        text = ("--data", data / "train-0.txt", "--tokenizer", data)
        assert run("pretrain", recipe, *text, *short, "-o", out) == 0
    expected = losses(whole)
    assert len(expected) == 8
    assert losses(cut) == expected
    shutil.rmtree(max((cut / "checkpoints").iterdir()))
    assert len(losses(cut)) == 4
    (cut / "training.json").unlink()
    resumed = ("pretrain", recipe, *text, *short, "-o", cut)
    assert run(*resumed, "--resume") == 0
    assert losses(cut) == expected

    shutil.rmtree(max((cut / "checkpoints").iterdir()))
    before = (data / "train-0.txt").read_text()
    (data / "train-0.txt").write_text(before.replace("farmer", "miller", 1))
    capsys.readouterr()
    assert run(*resumed, "--resume") == 2
    assert "train-0.txt has changed" in capsys.readouterr().err
    assert len(losses(cut)) == 4


def test_mistakes_are_named(
    recipe: Path, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, few = tmp_path / "model", tmp_path / "few.toml"
    few.write_text(RECIPE.replace("vocabulary = 140", "vocabulary = 9"))
    for arguments, message in (
        ((recipe, "--data", texts, "--set", "lenght=3"), "unknown setting 'lenght'"),
        (
            (recipe, "--data", texts, "--set", "batch_size=5"),
            "batches of 5 in 1 process do not divide evenly",
        ),
        ((recipe, "--data", texts, "--resume", "--overwrite"), "give one of them"),
        ((few, "--data", texts / "valid.txt"), "a vocabulary of 9 has no room"),
    ):
        assert run("pretrain", *arguments, "-o", out) == 2
        assert message in capsys.readouterr().err
