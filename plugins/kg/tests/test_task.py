"""The task `kgqa`: batches, learning, evaluation and what a model keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from kgqa_command import run

from peirce.compose import build
from peirce.errors import TaskError
from peirce.registry import Registry, load_spec
from peirce_kg.encoding.vocabulary import PAD
from peirce_kg.task import KgQa, KgQaData, KgQaOptions


@pytest.fixture(scope="module")
def task() -> KgQa:
    return KgQa(KgQaOptions(graph="nations", train_queries=60, eval_queries=20, batch_size=64))


@pytest.fixture(scope="module")
def data(task: KgQa) -> KgQaData:
    return task.prepare()


def test_batches_hold_every_query_once_and_no_more_padding_than_needed(data: KgQaData) -> None:
    task = KgQa(KgQaOptions(graph="nations", batch_size=64, balance=False))
    batches = list(task.batches(data, "train", seed=0, epoch=0))
    assert sum(len(b["labels"]) for b in batches) == sum(map(len, data.sets["train"]))
    for batch in batches:
        assert batch["input_ids"].shape == batch["token_kinds"].shape == batch["attention_mask"].shape
        assert batch["attention_mask"][:, -1].any()
        assert ((batch["input_ids"] != PAD) == batch["attention_mask"]).all()
        assert torch.allclose(batch["labels"].sum(1), torch.ones(len(batch["labels"])))
    rows = sorted(tuple(row.tolist()) for b in batches for row in b["input_ids"] * b["attention_mask"])
    trimmed = [tuple(x for x in row if x != PAD) for row in rows]
    assert len(set(trimmed)) == len(trimmed)


def test_queries_of_like_length_come_together_and_leave_less_padding(data: KgQaData) -> None:
    def batches(grouped: bool, epoch: int = 0) -> list[dict[str, torch.Tensor]]:
        options = KgQaOptions(graph="nations", batch_size=32, balance=False, group_by_length=grouped)
        return [dict(b) for b in KgQa(options).batches(data, "train", 0, epoch)]

    def rows(found: list[dict[str, torch.Tensor]]) -> list[tuple[int, ...]]:
        return [tuple(r[r != PAD].tolist()) for b in found for r in b["input_ids"]]

    def padding(found: list[dict[str, torch.Tensor]]) -> int:
        return sum(int((~b["attention_mask"]).sum()) for b in found)

    mixed, grouped = batches(False), batches(True)
    assert sorted(rows(mixed)) == sorted(rows(grouped))
    assert padding(grouped) < 0.3 * padding(mixed)
    assert rows(grouped) != rows(batches(True, epoch=1))
    widths = [b["input_ids"].shape[1] for b in grouped]
    assert widths != sorted(widths)


def test_queries_of_a_folder(tmp_path: Path) -> None:
    options = ["--graph", "nations", "--types", "1p,2i", "--count", "12", "--split", "all"]
    run("sample", *options, "-o", str(tmp_path))
    read = KgQa(KgQaOptions(graph="nations", queries=str(tmp_path))).prepare()
    found = [[(q.type.name, len(q)) for q in own] for own in read.sets.values()]
    assert found == [[("1p", 12), ("2i", 12)]] * 3
    with pytest.raises(TaskError, match="another graph"):
        KgQa(KgQaOptions(graph="umls", queries=str(tmp_path))).prepare()


def test_types_with_fewer_queries_are_repeated() -> None:
    few = {"train_queries": 2000, "eval_queries": 2}
    task = KgQa(KgQaOptions(graph="nations", types=("1p", "2i"), **few, batch_size=64))
    data = task.prepare()
    few, many = (len(queries) for queries in data.sets["train"])
    assert few < many
    batches = task.batches(data, "train", 0, 0)
    rows = [
        tuple(i[m].tolist())
        for b in batches
        for i, m in zip(b["input_ids"], b["attention_mask"], strict=True)
    ]
    lengths = [len(row) for row in rows]
    assert [lengths.count(n) for n in sorted(set(lengths))] == [many, many]
    assert len(set(rows)) == few + many


def test_other_answers_are_no_negatives_of_systems_of_sets(data: KgQaData, registry: Registry) -> None:
    task = KgQa(KgQaOptions(graph="nations", batch_size=1000, labels="one"))
    batch = next(iter(task.batches(data, "train", 0, 0)))
    labels, answers = batch["labels"], batch["answers"]
    assert answers[torch.arange(len(labels)), labels].all()
    others = answers & (F.one_hot(labels, answers.shape[1]) == 0)
    assert others.any()
    scores = torch.randn(others.shape)
    for name, counts in (("betae", False), ("lmpnn", True)):
        spec = {**task.overrides(data), "model.dims.unary": 8, "model.dims.feedforward": 4}
        spec |= {"model.augmenters": []} if name == "lmpnn" else {}
        model = build(load_spec(name, spec), registry=registry)
        losses = []
        for given in (scores, scores + 5.0 * others):
            model.forward = lambda given=given, **inputs: {"entities_logits": given}
            losses.append(task.loss(model, batch).item())
        assert (losses[0] != losses[1]) == counts


def test_labels_are_answers(data: KgQaData) -> None:
    known = {
        tuple(inputs["input_ids"][row].tolist()): set(queries.answers["train"][row].tolist())
        for queries, inputs in zip(data.sets["train"], data.inputs["train"], strict=True)
        for row in range(len(queries))
    }
    for labels in ("one", "all"):
        task = KgQa(KgQaOptions(graph="nations", batch_size=1000, labels=labels))
        (batch,) = task.batches(data, "train", 0, 0)
        given = zip(batch["input_ids"], batch["attention_mask"], batch["labels"], strict=True)
        for ids, mask, label in given:
            answers = known[tuple(ids[mask].tolist())]
            told = {int(label)} if labels == "one" else set(label.nonzero().ravel().tolist())
            assert told <= answers if labels == "one" else told == answers


def test_evaluated_types_may_differ_and_shortfalls_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    few = {"types": ("1p",), "eval_types": ("2p",), "train_queries": 5000, "eval_queries": 4}
    data = KgQa(KgQaOptions(graph="nations", **few)).prepare()
    assert [[q.type.name for q in data.sets[split]] for split in ("train", "test")] == [["1p"], ["2p"]]
    assert "of 5,000 asked for, the graph has only: 1p " in capsys.readouterr().err


def test_mistakes_are_named(task: KgQa, data: KgQaData, registry: Registry) -> None:
    with pytest.raises(TaskError, match="unknown split 'dev'"):
        next(iter(task.batches(data, "dev", 0, 0)))
    with pytest.raises(TaskError, match="unknown query type '9p'"):
        KgQa(KgQaOptions(types=("9p",))).prepare()
    spec = load_spec("bert-base", {"model.input.vocabulary": 300, "model.dims.layers": 1})
    other = build(spec, registry=registry)
    with pytest.raises(TaskError, match="has no head 'entities'"):
        task.metrics(other, data, "test")
