"""The task `squad`: files, labels, answers over windows, predictions, and a training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from glue_files import write_vocabulary
from small_specs import FOLNET
from squad_files import CONTEXT, question, squad, write_squad
from torch import Tensor, nn

from peirce.errors import TaskError
from peirce.model import Model
from peirce_text.squad.questions import read_file, read_hub
from peirce_text.squad.task import Squad, SquadOptions, SquadSplit
from peirce_text.tasks import TextData

SPEC = FOLNET.replace({"model.dims.layers": 1, "model.regularisation.init_std": 0.1})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_vocabulary(folder)
    return write_squad(folder)


def made(files: Path, **options: Any) -> tuple[Squad, TextData[SquadSplit]]:
    given = {"folder": str(files), "tokenizer": str(files / "vocab.txt"), "batch_size": 4}
    given |= {"length": 24, "stride": 6, "query_length": 8}
    task = Squad(SquadOptions(**{**given, **options}))
    return task, task.prepare()


def test_both_versions_are_read(files: Path) -> None:
    new = read_file(files / "train-v2.0.json")
    assert [question.id for question in new] == ["t1", "t2", "t3"]
    assert [len(question.answers) for question in new] == [1, 0, 1]
    assert new[2].text == "What is not a cat?"
    assert len({question.context for question in new}) == 2
    old = read_file(files / "dev-v1.1.json")
    assert old[0].answers[0].start == CONTEXT.index("A cat")


def test_labels_are_the_tokens_of_the_answer_or_the_first(files: Path) -> None:
    task, data = made(files, length=64)
    batch = next(iter(task.batches(data, "valid", 0, 0)))
    tokens = [data.tokenizer.token(int(i)) for i in batch["input_ids"][0]]
    assert " ".join(map(str, tokens[:9])) == "[CLS] who ran ? [SEP] the dog sat on"
    labels = batch["labels"]
    right = (labels[0] == 1).nonzero().tolist()
    cat = tokens.index("cat")
    assert right == [[cat - 1, 0], [cat, 0], [cat, 1]]  # `A cat` or `cat`
    assert labels[0, 1:5].eq(-100).all()
    assert labels[0, 0].eq(0).all()
    assert labels[0, 5 : tokens.index("[SEP]", 5)].ne(-100).all()
    assert labels[0, tokens.index("[SEP]", 5) :].eq(-100).all()
    assert (labels[1] == 1).nonzero().tolist() == [[0, 0], [0, 1]]
    assert batch["token_type_ids"][0, :5].eq(0).all()
    assert batch["token_type_ids"][0, 5:].eq(batch["attention_mask"][0, 5:].long()).all()


def test_a_window_without_the_answer_has_none(files: Path) -> None:
    task, data = made(files)
    part = data.splits["train"]
    assert len([i for i in part.owner if i == 0]) > 1
    labels = torch.cat([batch["labels"][:, 0, 0] for batch in task.batches(data, "valid", 0, 0)])
    windows = [part for part, i in zip(data.splits["valid"].parts, data.splits["valid"].owner, strict=True)]
    assert len(labels) == len(windows)
    cat = data.splits["valid"].questions[0].spans
    owners = zip(windows, data.splits["valid"].owner, strict=True)
    holds = [i == 0 and any(s <= a and b < e for a, b in cat) for (s, e), i in owners]
    assert labels.tolist() == [int(not held) for held in holds]
    assert 0 < sum(holds) < len(holds)


def test_an_answer_that_is_not_at_its_place_is_not_taught(files: Path, tmp_path: Path) -> None:
    wrong = question("w1", "Who ran?", "A cat")
    wrong["answers"][0]["answer_start"] += 1
    text = squad("2.0", (CONTEXT, [wrong, question("w2", "Who sat?", "The dog")]))
    (tmp_path / "train-v2.0.json").write_text(text)
    task, data = made(files, folder=str(tmp_path), length=64)
    (batch,) = task.batches(data, "train", 0, 0)
    assert len(batch["labels"]) == 1


class Oracle(nn.Module):
    """Scores that depend on the word alone: `cat` ends an answer, and `a` begins one."""

    def __init__(self, data: TextData[SquadSplit]) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        names = ("input_ids", "token_type_ids", "attention_mask")
        self.signature = SimpleNamespace(inputs=[SimpleNamespace(name=name, high=None) for name in names])
        word = data.tokenizer.id_of
        self.scores: Mapping[int | None, tuple[float, float]] = {
            word("a"): (4.0, 0.0),
            word("cat"): (3.0, 5.0),
            word("[CLS]"): (2.0, 2.0),
            word("film"): (0.0, 9.0),
        }

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        ids = inputs["input_ids"].tolist()
        return {"span_logits": torch.tensor([[self.scores.get(i, (-9.0, -9.0)) for i in row] for row in ids])}


def test_the_best_span_over_all_windows_and_its_text(files: Path) -> None:
    task, data = made(files, answer_length=3)
    predicted = task.predict(cast(Model, Oracle(data)), data, "valid")[0]
    # `a good film` (4 + 9) beats `A cat` (4 + 5), and `cat` (3 + 5); the texts are as they stand in the context.
    assert predicted.texts[:2] == ("a good film", "A cat")
    assert predicted.candidates[0].score == pytest.approx(13.0)
    assert predicted.none == pytest.approx(4.0)
    assert predicted.difference == pytest.approx(-9.0)
    task, data = made(files, answer_length=2)
    assert task.predict(cast(Model, Oracle(data)), data, "valid")[0].text == "A cat"


def test_predictions_are_written_as_the_published_script_takes_them(files: Path, tmp_path: Path) -> None:
    task, data = made(files, answer_length=2, predictions=str(tmp_path / "out"), threshold=-5.0)
    found = task.metrics(cast(Model, Oracle(data)), data, "valid")
    # Having no answer is 5 worse than `A cat` in both questions, not above the threshold: both are answered.
    assert found["exact"] == found["f1"] == 0.5
    assert found["best_exact"] == 0.5
    answers = json.loads((tmp_path / "out" / "predictions.json").read_text())
    assert answers == {"d1": "A cat", "d2": "A cat"}
    assert json.loads((tmp_path / "out" / "null_odds.json").read_text()) == {"d1": -5.0, "d2": -5.0}
    best = json.loads((tmp_path / "out" / "nbest.json").read_text())["d1"]
    assert best[0] == {"text": "A cat", "score": 9.0}
    task, data = made(files, answer_length=2, predictions=str(tmp_path / "none"), threshold=-6.0)
    assert task.metrics(cast(Model, Oracle(data)), data, "valid")["unanswerable_exact"] == 1.0
    assert json.loads((tmp_path / "none" / "predictions.json").read_text()) == {"d1": "", "d2": ""}


def test_without_unanswerable_questions_there_is_no_threshold(files: Path) -> None:
    task, data = made(files, version="1.1")
    assert set(task.metrics(cast(Model, Oracle(data)), data, "valid")) == {"exact", "f1"}


def test_a_data_set_with_the_columns_of_the_hub(tmp_path: Path) -> None:
    import datasets

    answers = [{"text": ["A cat"], "answer_start": [24]}, {"text": [], "answer_start": []}]
    rows = {"id": ["a", "b"], "title": ["x", "x"], "context": [CONTEXT, CONTEXT], "answers": answers}
    rows["question"] = ["Who ran?", "Who is it?"]
    datasets.DatasetDict({"validation": datasets.Dataset.from_dict(rows)}).save_to_disk(tmp_path / "saved")
    found = read_hub(str(tmp_path / "saved"))
    assert list(found) == ["valid"]
    assert [q.answers[0].start if q.answers else None for q in found["valid"]] == [24, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("{}", "no 'data'"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": "1"}]}]}]}', "no 'answers'"),
        ('{"data": []}', "there are no questions"),
        (squad("2.0", (CONTEXT, [question("a", "Who?"), question("a", "Who?")])), "occurs twice"),
    ],
)
def test_a_file_of_another_format_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "dev-v2.0.json"
    path.write_text(text)
    with pytest.raises(TaskError, match=message):
        read_file(path)
