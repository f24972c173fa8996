"""The task: what a batch is, renaming that keeps labels, accuracy by file, and a model that reads text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from peirce.compose import build
from peirce.errors import TaskError
from peirce.registry import load_spec
from peirce_tpru.entailment.formulas import entails, rename_in_order
from peirce_tpru.entailment.task import CLASSES, SYMBOLS, Entailment, EntailmentOptions, tokenizer

SMALL = {"model.dims.unary": 8, "model.dims.embedding": 4, "model.operators.options.tpru.roles": 5}


@pytest.fixture
def task(tmp_path: Path) -> Entailment:
    return Entailment(EntailmentOptions(**Entailment.example_in(tmp_path)))


def texts(batch: dict[str, torch.Tensor]) -> list[tuple[str, str]]:
    """The propositions of a batch."""
    found = []
    for ids, types, real in zip(
        batch["input_ids"], batch["token_type_ids"], batch["attention_mask"], strict=True
    ):
        signs = [[SYMBOLS[i] for i in ids[real & (types == text)]] for text in (0, 1)]
        assert signs[0][0] == "[CLS]"
        assert signs[0][-1] == signs[1][-1] == "[SEP]"
        found.append(("".join(signs[0][1:-1]), "".join(signs[1][:-1])))
    return found


def test_a_batch_is_what_the_tokenizer_gives(task: Entailment) -> None:
    data = task.prepare()
    (batch, *_) = task.batches(data, "valid", 0, 0)
    for row, (one, other) in enumerate(texts(batch)):
        encoding = tokenizer().encode(one, other, length=100)
        own = batch["attention_mask"][row]
        assert batch["input_ids"][row][own].tolist() == list(encoding.ids)
        assert batch["token_type_ids"][row][own].tolist() == list(encoding.types)
        assert bool(batch["labels"][row]) == entails(one, other)


def test_variables_change_names_each_epoch_and_labels_do_not(task: Entailment) -> None:
    data = task.prepare()
    epochs = [
        [
            (both, bool(label))
            for batch in task.batches(data, "train", 3, epoch)
            for both, label in zip(texts(batch), batch["labels"], strict=True)
        ]
        for epoch in (0, 0, 1)
    ]
    assert epochs[0] == epochs[1]
    assert epochs[0] != epochs[2]
    for pairs in epochs:
        assert all(entails(*both) == label for both, label in pairs)
    kinds = [sorted(rename_in_order(*both) for both, _ in pairs) for pairs in epochs]
    assert kinds[0] == kinds[2]


def test_ordered_names_are_those_of_the_order(tmp_path: Path) -> None:
    task = Entailment(EntailmentOptions(names="ordered", **Entailment.example_in(tmp_path)))
    data = task.prepare()
    for split in ("train", "valid"):
        for batch in task.batches(data, split, 3, 0):
            assert all(rename_in_order(*both) == ",".join(both) for both in texts(batch))


def test_accuracy_by_file_and_the_heuristics_beside_it(task: Entailment) -> None:
    data = task.prepare()
    model = build(load_spec("pair-tpru", {**SMALL, **task.overrides(data)}), seed=0)
    task.check(model, data)
    found = task.metrics(model, data, "test")
    pairs = data.files["test_easy"]
    assert found["h1/test_easy"] == 0.2  # of labels 1, 0, 1, 0, 0 it says 1, 1, 0, 1, 1
    assert found["accuracy"] == found["accuracy/test_easy"] == task.right(model, pairs).mean()
    assert np.array_equal(pairs.labels[:5], [1, 0, 1, 0, 0])
    assert json.loads(task.assets(data)["labels.json"])["classes"] == list(CLASSES)
    with pytest.raises(TaskError, match=r"no head|has none"):
        task.check(build(load_spec("pair-tpru", {**SMALL, "model.heads": []}), seed=0), data)
