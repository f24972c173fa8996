"""What a training on a table starts from, what it begins with, and what its scores are compared with."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from command_line import exit_code
from tiny_encoders import write_encoder

import peirce
from peirce_text import starts
from peirce_text.reading import Example
from peirce_text.starts import default_start, listed_models
from peirce_text.tabular.baseline import baseline_sentences
from peirce_text.text.tokenizer import Tokenizer

TABLE = "text,label\n" + "".join(
    f"{word} was the {what} {number},{label}\n"
    for number in range(15)
    for word, label in (("good", "praise"), ("bad", "blame"))
    for what in ("room", "meal")
)
SPEC = """
format = 1
[model]
name = "tiny"
architecture = "transformer"
dims = { layers = 1, unary = 8, heads = 2 }
input = { vocabulary = 60, token_types = 2 }
"""


@pytest.fixture(autouse=True)
def lonely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of the test's own, and no package that brings a model."""
    monkeypatch.setenv(starts.VARIABLE, str(tmp_path / "settings" / "models.json"))
    monkeypatch.setattr(starts, "PACKAGES", {})


def save_pretrained(folder: Path) -> Path:
    tokenizer = Tokenizer.train(["good bad was the room meal"] * 2, vocabulary=60)
    spec = peirce.Spec.from_toml(SPEC).replace({"model.input.vocabulary": tokenizer.vocabulary})
    peirce.build(spec, seed=0).save(folder, assets={"tokenizer.json": tokenizer.content})
    return folder


def test_the_list_of_models_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed_models() == []
    one, two = (save_pretrained(tmp_path / name) for name in ("one", "two"))
    for folder in (one, two, one):
        assert exit_code("models", "add", folder) == 0
    assert listed_models() == [str(one), str(two)]
    capsys.readouterr()
    assert exit_code("models", "remove", one, "--json") == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["folder"] == str(two)
    assert exit_code("models", "remove", one) != 0
    assert "is not listed" in capsys.readouterr().err


def test_models_that_are_listed_at_once_are_all_kept() -> None:
    names = [f"model-{i}" for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: starts._change(lambda found: [name, *found], json=True), names))
    assert sorted(listed_models()) == sorted(names)


def test_what_is_no_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("models", "add", tmp_path / "gone") != 0
    assert "one of transformers; there is no such folder; give the folder" in capsys.readouterr().err
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "config.json").write_text("{}")
    assert exit_code("models", "add", tmp_path) != 0
    refused = capsys.readouterr().err
    assert "it has neither spec.toml" in refused
    assert "as one of transformers; below it lie inner; give the folder that has it\n" in refused
    (tmp_path / "settings").mkdir()
    starts.models_file().write_text('{"models": [1]}')
    with pytest.raises(peirce.PeirceError, match="cannot be read: a folder is not a text"):
        listed_models()


def test_the_best_start_that_is_there_is_taken(tmp_path: Path) -> None:
    assert default_start().spec == "text-small"
    folder = save_pretrained(tmp_path / "one")
    assert exit_code("models", "add", folder) == 0
    start = default_start()
    assert start.model == folder
    assert str(folder) in start.why
    (folder / "spec.toml").unlink()
    with pytest.raises(peirce.PeirceError, match="peirce models remove"):
        default_start()


def test_an_encoder_of_transformers_is_wrapped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("peirce_hf")
    (tmp_path / "encoder").mkdir()
    words = ["good", "bad", "was", "the", "room", "meal", *map(str, range(15))]
    folder = write_encoder(tmp_path / "encoder", words, width=6, longest=32)
    assert exit_code("models", "add", folder) == 0
    (tmp_path / "my.csv").write_text(TABLE)
    given = ["train", "--data", tmp_path / "my.csv", "-o", tmp_path / "model", "--set", "train.epochs=1"]
    assert exit_code(*given, "--set", "length=16") == 0
    assert f"starting from the pretrained model {folder}" in capsys.readouterr().err
    saved = peirce.load(tmp_path / "model").spec
    assert saved.architecture == "pretrained"
    assert saved.options["pool"] == "mean"
    told = json.loads((tmp_path / "model" / "metrics.json").read_text())["during_training"]
    assert [each["monitor"] for each in told] == ["accuracy", "accuracy"]


def test_a_training_without_a_spec_begins_with_a_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my.csv").write_text(TABLE)
    small = ["--set", "model.dims.layers=1", "--set", "model.dims.unary=8", "--set", "vocabulary=90"]
    files = ["--data", tmp_path / "my.csv", "-o", tmp_path / "model"]
    assert exit_code("train", *files, "--set", "train.epochs=1", *small) == 0
    shown = capsys.readouterr()
    assert "text-small learns from scratch" in shown.err
    assert "begun with a logistic regression on n-grams of up to 2 tokens" in shown.err
    assert "most frequent class in training: accuracy 0.5000" in shown.out
    assert "words and pairs of words of 48 training rows: accuracy 1.0000" in " ".join(shown.out.split())
    first = json.loads((tmp_path / "model" / "metrics.json").read_text())["during_training"][0]
    assert first["step"] == 0
    assert first["metrics"]["accuracy"] == 1
    assert first["metrics"]["loss"] > 0, "the curve of the validation loss is lost"
    kept = json.loads((tmp_path / "model" / "training.json").read_text())["best"]
    assert kept == {"step": 0, "accuracy": 1.0}, "what has no mistake is replaced, since the loss fell"


def test_a_listed_model_is_started_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my.csv").write_text(TABLE)
    assert exit_code("models", "add", save_pretrained(tmp_path / "one")) == 0
    given = ["train", "--data", tmp_path / "my.csv", "-o", tmp_path / "model", "--set", "train.epochs=1"]
    assert exit_code(*given) == 0
    shown = capsys.readouterr().err
    assert "starting from the pretrained model" in shown
    assert "begun with a logistic regression on the vectors of the model as it is" in shown


def test_texts_without_words_have_no_bag() -> None:
    rows = [Example((" ",), None, name) for name in ("a", "b", "b")]
    for sentence in baseline_sentences(rows, rows):
        assert "accuracy 0.6667" in sentence
    assert list(baseline_sentences(rows[:1], rows)) == []
