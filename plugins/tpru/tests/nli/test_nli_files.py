"""Reading SNLI, MNLI and SICK: JSON lines, tables and data sets, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from peirce.errors import TaskError
from peirce_text import Example
from peirce_tpru.nli.files import LABELS, TEST, TRAIN, VALID
from peirce_tpru.nli.task import Nli, NliOptions

PAIRS = [("A dog runs.", "An animal runs.", "entailment"), ("A dog runs.", "A cat sits.", "-")]


def lines(path: Path, pairs: list[tuple[str, str, str]] = PAIRS) -> None:
    """Pairs as SNLI and MNLI are published."""
    rows = [{"gold_label": label, "sentence1": one, "sentence2": other} for one, other, label in pairs]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read_folder(folder: Path, **more: Any) -> dict[str, Sequence[Example]]:
    return Nli(NliOptions(folder=str(folder), **more)).read()


def read_hub(name: Path) -> dict[str, Sequence[Example]]:
    return Nli(NliOptions(dataset=str(name))).read()


def labels(examples: Sequence[Example]) -> list[float | None]:
    return [each.label for each in examples]


def test_json_lines_without_agreement_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines(tmp_path / "multinli_1.0_train.jsonl")
    lines(tmp_path / "multinli_1.0_dev_mismatched.jsonl", [("A", "B", "contradiction")])
    read = read_folder(tmp_path)
    assert list(read) == [TRAIN, "valid_mismatched"]
    assert read[TRAIN] == [Example(("A dog runs.", "An animal runs."), 0)]
    assert "1 of 2 train rows cannot be used" in capsys.readouterr().err
    (more := tmp_path / "more").mkdir()
    lines(more / "snli_1.0_train.jsonl", [("A", "B", "contradiction")])
    assert labels(read_folder(tmp_path, more=str(more))[TRAIN]) == [0, 2]
    assert labels(read_folder(tmp_path, more=str(more), limit=1)[TRAIN]) == [0]


def test_the_hubs_columns_give_the_same_pairs(tmp_path: Path) -> None:
    from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

    features = Features(
        premise=Value("string"), hypothesis=Value("string"), label=ClassLabel(names=list(LABELS))
    )
    columns = {"premise": ["a", "b", "c"], "hypothesis": ["d", "e", "f"], "label": [2, -1, 0]}
    made = Dataset.from_dict(columns, features=features)
    hidden = Dataset.from_dict({**columns, "label": [-1, -1, -1]}, features=features)
    DatasetDict(train=made, validation_mismatched=made, test=hidden).save_to_disk(str(tmp_path / "hub"))
    read = read_hub(tmp_path / "hub")
    assert list(read) == [TRAIN, "valid_mismatched"]
    assert labels(read[TRAIN]) == [2, 0]
    DatasetDict(train=Dataset.from_dict(columns)).save_to_disk(str(tmp_path / "numbers"))
    assert labels(read_hub(tmp_path / "numbers")[TRAIN]) == [2, 0]
    DatasetDict(train=Dataset.from_dict({**columns, "label": [2, 3, 0]})).save_to_disk(str(tmp_path / "four"))
    with pytest.raises(TaskError, match=r"train, row 2: column 'label' holds '3'"):
        read_hub(tmp_path / "four")


def test_sick_is_read_as_it_is_published(shared: Path) -> None:
    read = read_folder(shared / "data" / "senteval")
    assert {split: len(own) for split, own in read.items()} == {TRAIN: 4500, VALID: 500, TEST: 4927}
    assert [labels(read[TEST]).count(label) for label in range(3)] == [1414, 2793, 720]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"gold_label": "maybe", "sentence1": "a", "sentence2": "b"}, r"jsonl, row 1: .*'maybe'.*one of"),
        ({"gold_label": "neutral", "sentence1": "a", "sentence2": ""}, r"row 1: column 'sentence2' holds ''"),
        ({"gold_label": "neutral", "text": "a"}, r"row 1: the columns gold_label, text are not those"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, content: dict[str, str], said: str) -> None:
    (tmp_path / "snli_1.0_train.jsonl").write_text(json.dumps(content) + "\n", encoding="utf-8")
    with pytest.raises(TaskError, match=said):
        read_folder(tmp_path)


def test_folders_have_one_data_set_each(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"no published file of SNLI, MNLI or SICK"):
        read_folder(tmp_path)
    for name in ("snli_1.0_train", "multinli_1.0_train"):
        lines(tmp_path / f"{name}.jsonl")
    with pytest.raises(TaskError, match=r"a folder of its own, and name the second with task\.more"):
        read_folder(tmp_path)
