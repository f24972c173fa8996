from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_specs import FOLNET, PAPER_CJOIN
from torch import Tensor

import peirce
from peirce.errors import SpecError, TaskError
from peirce.model import Model
from peirce.parts import IGNORED
from peirce.registry import Registry
from peirce_text.pretraining.task import Pretraining, PretrainingData, round_up
from peirce_training.evaluation import mean_loss

Make = Callable[..., Pretraining]

SPEC = FOLNET.replace({"model.dims.layers": 1, "model.regularisation.init_std": 0.1})
CAUSAL = SPEC.replace({"model.scope.kind": "causal", **PAPER_CJOIN})


def built(task: Pretraining, data: PretrainingData, registry: Registry) -> Model:
    return peirce.build(SPEC.replace(task.overrides(data)), registry=registry)


def rows(task: Pretraining, data: PretrainingData, seed: int, epoch: int) -> dict[int, tuple[object, ...]]:
    """What each example became in an epoch, without padding."""
    found: dict[int, tuple[object, ...]] = {}
    for batch in task.batches(data, "train", seed, epoch):
        for i, example in enumerate(batch["texts"].tolist()):
            real, counted = batch["attention_mask"][i], batch["labels"][i] != IGNORED
            found[example] = (
                batch["input_ids"][i][real].tolist(),
                batch["token_type_ids"][i][real].tolist(),
                batch["positions"][i][counted].tolist(),
                batch["labels"][i][counted].tolist(),
                int(batch["pairs"][i]),
            )
    return found


def test_a_row_depends_on_seed_epoch_and_example_alone(task: Make) -> None:
    data = task().prepare()
    first = rows(task(), data, 0, 0)
    for size in (4, 16, 1):
        other = rows(task(batch_size=size), data, 0, 0)
        assert other.keys() & first.keys()
        assert all(other[example] == first[example] for example in other.keys() & first.keys())
    for seed, epoch in ((1, 0), (0, 1)):
        other = rows(task(), data, seed, epoch)
        same = [other[example] == first[example] for example in other.keys() & first.keys()]
        assert sum(same) < len(same) / 10


@pytest.mark.parametrize("objective", ["nsp", "sop", "mlm"])
def test_rows_are_restored_by_their_labels_and_no_special_token_is_masked(task: Make, objective: str) -> None:
    made = task(objective=objective)
    data = made.prepare()
    tokenizer = data.tokenizer
    for batch in made.batches(data, "train", 3, 0):
        assert made.targets(batch) == made.targets(dict(batch))
        ids = batch["input_ids"].clone()
        counted = batch["labels"] != IGNORED
        assert not torch.isin(batch["labels"][counted], torch.tensor(sorted(tokenizer.special_ids))).any()
        for row in range(len(ids)):
            ids[row, batch["positions"][row][counted[row]]] = batch["labels"][row][counted[row]]
            real = ids[row][batch["attention_mask"][row]].tolist()
            assert len(real) <= 32
            assert real[0] == tokenizer.cls_id
            assert real[-1] == tokenizer.sep_id
            assert real.count(tokenizer.sep_id) == (1 if objective == "mlm" else 2)
            assert tokenizer.mask_id not in real
            kinds = batch["token_type_ids"][row].tolist()
            first = real.index(tokenizer.sep_id) + 1
            assert kinds == [0] * first + [1] * (len(real) - first) + [0] * (len(kinds) - len(real))
        assert (ids[~batch["attention_mask"]] == tokenizer.pad_id).all()


def test_an_epoch_uses_every_example_that_fills_a_batch(task: Make) -> None:
    made = task()
    data = made.prepare()
    total = data.facts["train"]["examples"]
    seen = [e for batch in made.batches(data, "train", 0, 5) for e in batch["texts"].tolist()]
    assert len(seen) == len(set(seen)) == total // 8 * 8
    one = task(batch_size=10_000)
    assert [len(batch["pairs"]) for batch in one.batches(data, "train", 0, 0)] == [total]
    valid = [e for batch in made.batches(data, "valid", 9, 9) for e in batch["texts"].tolist()]
    assert valid == list(range(data.facts["valid"]["examples"]))
    few = task(valid_rows=5)
    assert sum(len(batch["pairs"]) for batch in few.batches(data, "test", 0, 0)) == 5


def test_next_tokens_are_learnt_as_the_head_alone_would_have_it(task: Make, registry: Registry) -> None:
    made = task(objective="causal")
    data = made.prepare()
    model = peirce.build(CAUSAL.replace(made.overrides(data)), registry=registry).eval()
    made.check(model, data)
    total = count = 0.0
    for batch in made.batches(data, "valid", 0, 0):
        assert made.targets(batch) == made.targets(dict(batch))
        inputs = {name: batch[name] for name in ("input_ids", "token_type_ids", "attention_mask")}
        outputs = model(**inputs)
        labels = torch.full_like(batch["input_ids"], IGNORED)
        labels[:, :-1] = batch["input_ids"][:, 1:].where(batch["attention_mask"][:, 1:], IGNORED)
        loss = model.loss("lm", outputs, labels)
        torch.testing.assert_close(made.terms(model, batch)["lm"], loss)
        guessed = int((labels != IGNORED).sum())
        assert made.targets(batch) == {"lm": guessed}
        total, count = total + float(loss.detach()) * guessed, count + guessed
    metrics = made.metrics(model, data, "valid")
    assert metrics["loss"] == metrics["lm_loss"] == pytest.approx(total / count, rel=1e-4)
    assert metrics["perplexity"] == pytest.approx(math.exp(total / count), rel=1e-3)


def test_models_that_read_more_than_text_are_refused(task: Make, registry: Registry) -> None:
    made = task(objective="causal")
    data = made.prepare()
    prefix = CAUSAL.replace({**made.overrides(data), "model.scope.kind": "prefix"})
    with pytest.raises(TaskError, match="reads prefix_length, which rows of plain text do not have"):
        made.check(peirce.build(prefix, registry=registry), data)
    with pytest.raises(TaskError, match=r"set task\.scl=false"):
        task(objective="causal", scl=True)
    with pytest.raises(SpecError, match="predicts the next token"):
        built(made, data, registry)


def test_two_views_of_a_text_stand_side_by_side(task: Make) -> None:
    made = task(scl=True, objective="mlm")
    data = made.prepare()
    for batch in made.batches(data, "train", 0, 0):
        texts: Tensor = batch["texts"]
        assert (texts[::2] == texts[1::2]).all()
        assert len(texts.unique()) == len(texts) // 2
        lengths = batch["attention_mask"].sum(1)
        assert (lengths[1::2] <= lengths[::2]).all()
    with pytest.raises(TaskError, match="batch_size=7 is odd"):
        task(scl=True, batch_size=7)


def test_metrics_are_means_over_tokens_and_rows(task: Make, registry: Registry) -> None:
    made = task()
    data = made.prepare()
    model = built(made, data, registry).eval()
    with torch.no_grad():
        metrics = made.metrics(model, data, "valid")
        total = correct = count = pairs = rows_seen = 0.0
        for batch in made.batches(data, "valid", 0, 0):
            inputs = {name: batch[name] for name in ("input_ids", "token_type_ids", "attention_mask")}
            outputs = model(**inputs)
            row, number = (batch["labels"] != IGNORED).nonzero(as_tuple=True)
            labels = batch["labels"][row, number]
            scores = outputs["mlm_logits"][row, batch["positions"][row, number]]
            total -= float(scores.log_softmax(-1).gather(1, labels[:, None]).sum())
            correct += int((scores.argmax(-1) == labels).sum())
            count += len(labels)
            pairs += int((outputs["nsp_logits"].argmax(-1) == batch["pairs"]).sum())
            rows_seen += len(batch["pairs"])
    assert metrics["mlm_loss"] == pytest.approx(total / count, rel=1e-4)
    assert metrics["mlm_accuracy"] == pytest.approx(correct / count)
    assert metrics["pair_accuracy"] == pytest.approx(pairs / rows_seen)
    assert metrics["loss"] == pytest.approx(metrics["mlm_loss"] + metrics["pair_loss"])
    assert metrics["loss"] == pytest.approx(mean_loss(model, made, data, "valid"), rel=0.05)


def test_the_spec_gets_the_vocabulary_and_the_heads(task: Make) -> None:
    data = task().prepare()
    assert data.tokenizer.vocabulary == 140
    overrides = task(objective="sop", scl=True).overrides(data)
    assert overrides["model.input.vocabulary"] == 144
    assert overrides["model.heads"] == [
        {"use": "mlm"}, {"use": "pair", "as": "sop"}, {"use": "contrastive", "as": "scl"},
    ]  # fmt: skip
    assert task(objective="mlm", vocabulary_multiple=0).overrides(data)["model.input.vocabulary"] == 140
    assert round_up(32768, 8) == 32776
    assert round_up(32761, 8) == 32768


def test_a_damaged_shard_is_refused_or_left_out_whole_by_name(
    task: Make, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.txt.gz"
    bad.write_bytes(gzip.compress((texts / "train-0.txt").read_bytes())[:-9])
    files = (str(texts / "train-0.txt"), str(bad))
    with pytest.raises(TaskError, match=r"bad\.txt\.gz is damaged: .*task\.damaged=skip"):
        task(files=files).prepare()
    data = task(files=files, damaged="skip").prepare()
    assert list(data.damaged) == [str(bad)]
    assert "left out: shard" in capsys.readouterr().err
    alone = task(files=files[:1]).prepare()
    assert data.facts == alone.facts
    with pytest.raises(TaskError, match="hold no text"):
        task(files=(str(bad),), damaged="skip").prepare()


def test_mistakes_are_named(task: Make, tmp_path: Path) -> None:
    data = task(valid_files=()).prepare()
    with pytest.raises(TaskError, match=r"no split 'test' without task\.valid_files"):
        next(task().batches(data, "test", 0, 0))
    (tmp_path / "file").touch()
    for wrong, word in (
        ({"tokenizer": ""}, "tokenizer"), ({"files": ()}, "text"), ({"store": str(tmp_path / "file")}, "folder"),
    ):  # fmt: skip
        with pytest.raises(TaskError, match=word):
            task(**wrong).prepare()
