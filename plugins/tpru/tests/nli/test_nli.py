"""The task: batches, accuracies of matched and mismatched pairs, and a training on vectors of a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from peirce.compose import build
from peirce.errors import TaskError
from peirce.model import ASSETS
from peirce.registry import load_spec
from peirce_tpru.nli.files import LABELS
from peirce_tpru.nli.task import Nli, NliOptions
from peirce_training import train, training_options

SIZES = {"model.dims.unary": 8, "model.dims.embedding": 6}
SMALL = {**SIZES, "model.operators.options.tpru.roles": 5}


@pytest.fixture
def given(tmp_path: Path) -> dict[str, object]:
    """The options of the example."""
    return dict(Nli.example_in(tmp_path))


def test_accuracy_of_matched_and_mismatched_pairs_and_their_mean(given: dict[str, object]) -> None:
    task = Nli(NliOptions(**given))
    data = task.prepare()
    model = build(load_spec("nli-bidaf", {**SMALL, **task.overrides(data)}), seed=0)
    task.check(model, data)
    found = task.metrics(model, data, "valid")
    assert found["accuracy"] == task.right(model, data, "valid").mean()
    assert found["score"] == (found["accuracy"] + found["accuracy_mismatched"]) / 2
    (batch, *_) = task.batches(data, "valid", 0, 0)
    assert batch["labels"].tolist() == [0, 1, 2, 0]
    assert batch["token_type_ids"][0].sum() == batch["attention_mask"][0].sum() // 2  # a sentence and itself
    with pytest.raises(TaskError, match=r"no 'test' split here, only train, valid"):
        next(task.batches(data, "test", 0, 0))
    with pytest.raises(TaskError, match="of 3 classes"):
        task.check(build(load_spec("pair-tpru"), seed=0), data)


def test_a_model_learns_from_vectors_that_are_not_trained(given: dict[str, object], tmp_path: Path) -> None:
    words = ["The", "dog", "cat", "cow", "hen", "sat", "ran", "slept", "ate", "here", "there", "No", ",", "."]
    generator = torch.Generator().manual_seed(0)
    rows = [
        " ".join([word, *(f"{x:.3f}" for x in torch.randn(6, generator=generator).tolist())])
        for word in words
    ]
    (tmp_path / "glove.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    task = Nli(NliOptions(**given, vectors=str(tmp_path / "glove.txt"), more=str(tmp_path), limit=20))
    data = task.prepare()
    assert len(data.splits["train"]) == 20
    spec = load_spec("nli-tpru", {**SIZES, "model.operators": {"layer": "gru"}, **task.overrides(data)})
    training = training_options({"steps": 150, "lr": 0.02, "threads": 1, "test_split": ""})
    trained = train(spec, task, training, tmp_path / "out", seed=0, data=data)
    assert task.right(trained.model, data, "train").mean() > 0.8
    assets = tmp_path / "out" / ASSETS
    assert sorted(path.name for path in assets.iterdir()) == ["labels.txt", "vectors.json"]
    assert (assets / "labels.txt").read_text(encoding="utf-8").split() == list(LABELS)


def test_what_is_not_there_is_named(given: dict[str, object]) -> None:
    data = (task := Nli(NliOptions(**given))).prepare()
    short = {**SMALL, **task.overrides(data), "model.input.max_length": 16}
    with pytest.raises(TaskError, match=r"a pair may have 32 tokens, and model\.input\.max_length is 16"):
        task.check(build(load_spec("nli-tpru", short), seed=0), data)
