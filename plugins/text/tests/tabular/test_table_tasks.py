"""Learning from a table of one's own: what is read, what is refused, and what a trained model keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attrs import field, frozen, validators
from rich.console import Console
from small_specs import FOLNET

from peirce import hookimpl
from peirce.compose import build
from peirce.errors import TaskError
from peirce.parts import IGNORED, Dims, Encoded, Head, TensorSpec, Tokens
from peirce.registry import Registry
from peirce_text.tabular.classify import Classify, ClassifyOptions
from peirce_text.tabular.tag import Tag, TagOptions
from peirce_text.text.tokenizer import Tokenizer
from peirce_text.text.words import encode_words
from peirce_training import TrainingOptions, train

TABLE = "text,label\n" + "".join(f'"the {who}, it sat",{who}\n' for who in ("dog", "cat", "dog") * 4)


def classify(folder: Path, content: str = TABLE, **options: Any) -> Classify:
    (folder / "my.csv").write_text(content, encoding="utf-8-sig")
    return Classify(ClassifyOptions(data=str(folder / "my.csv"), **{"vocabulary": 60, **options}))


def test_classes_are_found_and_kept(tmp_path: Path) -> None:
    task = classify(tmp_path, weights="balanced", valid_share=0.25)
    data = task.prepare()
    assert data.classes == ("cat", "dog")
    assert {split: len(part) for split, part in data.splits.items()} == {"train": 8, "valid": 3, "test": 1}
    assert task.overrides(data)["model.heads"] == [
        {"use": "classification", "classes": 2, "problem": "single"}
    ]
    kept = json.loads(task.assets(data)["labels.json"])
    columns = {"text": "text", "label": "label"}
    assert len(kept.pop("aside")) == 16
    assert kept == {"task": "classify", "classes": ["cat", "dog"], "columns": columns, "length": 128}
    part = data.splits["train"]
    for number in range(2):  # every class weighs the same
        assert part.columns["weights"][part.labels == number].sum() == pytest.approx(len(part) / 2)


def test_classes_may_have_an_order_of_their_own(tmp_path: Path) -> None:
    task = classify(tmp_path, classes=("dog", "bird", "cat"))
    data = task.prepare()
    assert data.classes == ("dog", "bird", "cat")
    part = data.splits["train"]
    assert [part.labels.tolist().count(number) for number in range(3)] == [6, 0, 4]
    assert task.overrides(data)["model.heads"][0]["classes"] == 3
    (tmp_path / "valid.csv").write_text("text,label\na bird,bird\n")  # which no training row has
    judged = classify(tmp_path, classes=("dog", "bird", "cat"), valid_data=str(tmp_path / "valid.csv"))
    assert judged.prepare().splits["valid"].labels.tolist() == [1]
    with pytest.raises(TaskError, match=r"has the class 'cat', which task\.classes does not list"):
        classify(tmp_path, classes=("dog", "bird")).prepare()


def test_weights_change_the_loss_of_a_batch_by_their_mean(tmp_path: Path, registry: Registry) -> None:
    task = classify(tmp_path, weights="balanced")
    data = task.prepare()
    model = build(FOLNET.replace(task.overrides(data)), registry=registry, seed=0).eval()
    (batch,) = task.batches(data, "train", 0, 0)
    plain = {name: tensor for name, tensor in batch.items() if name != "weights"}
    one = {name: tensor[:1] for name, tensor in plain.items()}
    even = task.loss(model, {**plain, "weights": torch.ones(len(batch["labels"]))})
    assert even.item() == pytest.approx(task.loss(model, plain).item(), rel=1e-5)
    doubled = task.loss(model, {**one, "weights": torch.tensor([2.0])})
    assert doubled.item() == pytest.approx(2 * task.loss(model, one).item(), rel=1e-5)


@frozen(kw_only=True)
class StrongestOptions:
    """Options.

    Args:
        classes: how many classes there are.
        sharp: a factor on the logits.
    """

    classes: int = field(default=2, validator=validators.ge(2))
    sharp: float = 1.0


class Strongest(Head):
    """The class of the token that says it most."""

    name = "strongest"
    Options = StrongestOptions
    labels = "int64 [batch], a class"

    def __init__(self, options: StrongestOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.map = torch.nn.Linear(dims.unary, options.classes)

    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec(name="logits", dtype="float", dims=("batch", self.options.classes)),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, torch.Tensor]:
        return {"logits": self.options.sharp * self.map(encoded.unary).amax(1)}

    def loss(self, outputs: Mapping[str, torch.Tensor], labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(outputs["logits"], labels)

    @classmethod
    @hookimpl
    def register_heads(cls) -> list[type[Head]]:
        return [cls]


def test_a_head_of_ones_own_stays_and_learns_from_the_table(tmp_path: Path) -> None:
    own = {"use": "strongest", "as": "classification", "sharp": 2.0}
    spec = FOLNET.replace({"model.heads": [own, {"use": "mlm"}]})
    task = classify(tmp_path, TABLE + '"it ran",bird\n' * 4)
    data = task.prepare()
    registry = Registry.of("peirce_basics.plugin", "peirce_folnet.plugin", Strongest)
    model = build(spec.replace(task.overrides_for(spec, data)), registry=registry, seed=0)
    (head,) = model.spec.heads
    assert (head.use, head.as_, head.options) == ("strongest", "classification", {"sharp": 2.0, "classes": 3})
    (batch,) = task.batches(data, "train", 0, 0)
    task.loss(model, batch).backward()
    assert task.metrics(model.eval(), data, "test").keys() >= {"accuracy"}


def test_options_of_the_usual_head_stay_and_the_data_determine_the_rest(tmp_path: Path) -> None:
    spec = FOLNET.replace({"model.heads": [{"use": "classification", "classes": 7, "dropout": 0.3}]})
    task = classify(tmp_path)
    (head,) = task.overrides_for(spec, task.prepare())["model.heads"]
    assert head == {
        "use": "classification", "as": "classification", "dropout": 0.3, "classes": 2, "problem": "single",
    }  # fmt: skip


def test_a_pair_of_texts_has_two_token_types(tmp_path: Path) -> None:
    rows = "".join(f"a dog,it sat,{i % 2}\n" for i in range(12))
    task = classify(tmp_path, "premise,hypothesis,label\n" + rows)
    data = task.prepare()
    assert task.columns == {"text": "premise", "pair": "hypothesis", "label": "label"}
    assert task.overrides(data)["model.input.token_types"] == 2
    assert task.overrides(data)["model.heads"][0]["problem"] == "pair"


def test_every_format_is_read_alike(tmp_path: Path) -> None:
    rows = [{"text": f"row {i}", "label": i % 2} for i in range(20)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "set").mkdir()
    table = "text,label\n" + "".join("{text},{label}\n".format(**row) for row in rows)
    (tmp_path / "set" / "train.csv").write_text(table)
    options = (ClassifyOptions(data=str(tmp_path / name), vocabulary=60) for name in ("a.jsonl", "set"))
    one, other = (Classify(each).prepare().splits["test"] for each in options)
    assert np.array_equal(one.ids, other.ids)
    assert np.array_equal(one.labels, other.labels)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("text,label\n", "there are no rows"),
        ("text,label\na,b\nc,b\n", "has only the class 'b'"),
        ("text,label\na,\nb,\nc,nan\n", r"3 of 3 train rows cannot be used.*row 1: it has no label"),
        ("text,label\n" + "".join(f"a,{i}\n" for i in range(50)), "50 different values in 50 rows"),
        ("text,label\na,x\nb,y\n", "2 rows are too few"),
    ],
)
def test_tables_that_cannot_be_learned_are_refused(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        classify(tmp_path, content).prepare()


def test_a_class_that_training_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("text,label\na,cow\n")
    with pytest.raises(TaskError, match=r"test\.csv, row 1: column 'label': unknown class 'cow'.*cat, dog"):
        classify(tmp_path, test_data=str(tmp_path / "test.csv")).prepare()


def test_long_texts_of_words_go_on_in_the_next_row() -> None:
    tokenizer = Tokenizer.train(["the dog sat on the mat"] * 2, vocabulary=60)
    words = [["the", "dog", "sat"], ["\u200b"], [], ["on", "the"]]
    pieces = [len(tokenizer.pieces(word)) or 1 for text in words for word in text]
    made = encode_words(tokenizer, words, length=2 + max(pieces))
    assert made.lengths.max() <= 2 + max(pieces)
    assert made.first.sum() == 6
    assert list(map(list, made.by_text(np.arange(6)))) == [[0, 1, 2], [3], [], [4, 5]]
    tagged = made.with_tags(np.arange(6))
    batch = tagged.batch(np.arange(len(tagged)))
    found = batch["labels"][batch["labels"] != IGNORED]
    assert found.tolist() == [0, 1, 2, 3, 4, 5]
    assert (batch["labels"].ne(IGNORED) <= batch["attention_mask"]).all()


def test_tags_are_lists_or_texts(tmp_path: Path) -> None:
    table = "tokens,tags\n" + "Ann sat,B-who O\n" * 12
    (tmp_path / "my.csv").write_text(table)
    task = Tag(TagOptions(data=str(tmp_path / "my.csv"), vocabulary=60))
    data = task.prepare()
    assert data.classes == ("B-who", "O")
    assert data.splits["test"].counts.tolist() == [2]
    (tmp_path / "my.csv").write_text(table + "one two,O\n")
    with pytest.raises(TaskError, match=r"row 13: 2 words have 1 tags"):
        task.prepare()


def test_a_head_without_a_score_for_each_class_is_refused(tmp_path: Path) -> None:
    task = classify(tmp_path)
    data = task.prepare()
    spec = FOLNET.replace(task.overrides(data)).replace({"model.heads.0.classes": 3})
    with pytest.raises(
        TaskError, match=r"gives logits \[batch, 3\], and the task 'classify' reads a score for each of 2"
    ):
        task.check(build(spec), data)


def test_heads_that_the_task_leaves_out_are_said(tmp_path: Path, registry: Registry) -> None:
    spec = FOLNET.replace({"model.heads": [{"use": "classification", "as": "clasification"}, {"use": "mlm"}]})
    console = Console(record=True, width=200)
    options = TrainingOptions(steps=1, device="cpu", threads=1, test_split="")
    train(spec, classify(tmp_path), options, tmp_path / "m", registry=registry, console=console)
    said = console.export_text()
    assert "left out of the training and of the saved model: 'clasification', 'mlm'" in said
    assert 'write as = "classification"' in said
