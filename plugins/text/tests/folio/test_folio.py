from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_specs import FOLNET

from peirce.compose import build
from peirce.errors import TaskError
from peirce.registry import Registry
from peirce_text.folio.problems import find_files
from peirce_text.folio.problems import problem as read_problem
from peirce_text.folio.task import Folio, FolioOptions
from peirce_text.reading import read_rows

PREMISES = ["All cats sleep. ", "Tom is a cat."]


def problem(**values: Any) -> dict[str, Any]:
    """One row as it is published."""
    given = {"premises": PREMISES, "premises-FOL": ["∀x (Cat(x) → Sleeps(x))", "Cat(tom)"]}
    return {**given, "conclusion": "Tom sleeps.", "label": "True", **values}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folio"
    folder.mkdir()
    says = {"True": "Tom sleeps.", "False": "Tom does not sleep.", "Unknown": "Tom is old."}
    write(folder / "train.jsonl", [problem(conclusion=says[label], label=label) for label in says] * 4)
    says["Uncertain"] = says.pop("Unknown")
    rows = [problem(conclusion=says[label], label=label) for label in says]
    write(folder / "folio-validation.jsonl.gz", rows * 2)
    return folder


def test_the_two_spellings_of_unknown_are_one(tmp_path: Path) -> None:
    rows = [problem(label=label) for label in ("True", "False", "Unknown", "Uncertain")]
    rows.append(problem(premises="All cats sleep.\n\nTom is a cat.\n"))
    problems = list(map(read_problem, read_rows(write(tmp_path / "train.jsonl", rows))))
    assert [p.label for p in problems] == [0, 1, 2, 2, 0]
    assert {p.texts for p in problems} == {("All cats sleep. Tom is a cat.", "Tom sleeps.")}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"label": "Perhaps"}, "unknown label 'Perhaps'"),
        ({"premises": 3}, "premises must be a list of sentences"),
        ({"premises": [" "]}, "no premises"),
        ({"conclusion": ""}, "column 'conclusion'"),
    ],
)
def test_an_error_names_the_row(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = write(tmp_path / "train.jsonl", [problem(), problem(**change)])
    with pytest.raises(TaskError, match=f"{path}, row 2: .*{words}"):
        list(map(read_problem, read_rows(path)))


def test_the_files_of_a_folder(folder: Path, tmp_path: Path) -> None:
    assert {split: path.name for split, path in find_files(folder).items()} == {
        "train": "train.jsonl",
        "valid": "folio-validation.jsonl.gz",
    }
    write(folder / "dev.jsonl", [problem()])
    with pytest.raises(TaskError, match="are both the"):
        find_files(folder)
    with pytest.raises(TaskError, match=r"needs either task\.folder or task\.dataset"):
        Folio(FolioOptions()).prepare()


def test_a_problem_is_a_pair_whose_premises_are_cut(folder: Path) -> None:
    def row(length: int) -> list[list[str | None]]:
        data = Folio(FolioOptions(folder=str(folder), vocabulary=100, length=length)).prepare()
        part = data.splits["train"]
        tokens = [data.tokenizer.token(int(i)) for i in part.row(0)]
        return [tokens[: part.firsts[0]], tokens[part.firsts[0] :]]

    first, second = row(512)
    assert (first[0], first[-1]) == ("[CLS]", "[SEP]")
    assert "".join(map(str, first[1:-1])).replace("##", "") == "allcatssleep.tomisacat."
    assert "".join(map(str, second)).replace("##", "") == "tomsleeps.[SEP]"
    cut, kept = row(len(second) + 5)
    assert kept == second
    assert cut == [*first[:4], "[SEP]"]


def test_metrics_by_hand(folder: Path, registry: Registry) -> None:
    task = Folio(FolioOptions(folder=str(folder), vocabulary=100, batch_size=4))
    data = task.prepare()
    model = build(FOLNET.replace(task.overrides(data)), registry=registry).eval()
    names = ("True", "False", "Unknown")
    expected = {f"confusion/{a}/{b}": 0.0 for a in names for b in names}
    right = []
    with torch.no_grad():
        for row, label in enumerate(data.splits["valid"].labels):
            batch = data.splits["valid"].batch(np.array([row]))
            inputs = {name: batch[name] for name in ("input_ids", "token_type_ids")}
            found = int(model(**inputs)["classification_logits"].argmax())
            expected[f"confusion/{names[label]}/{names[found]}"] += 1
            right.append(found == label)
    metrics = task.metrics(model, data, "valid")
    assert metrics == pytest.approx({"accuracy": np.mean(right), **expected})
    assert task.metrics(model, data, "test") == metrics  # the validation file stands for a test file


def test_the_published_files(shared: Path) -> None:
    data = Folio(FolioOptions(folder=str(shared / "data" / "folio"))).prepare()
    counts = {split: np.bincount(part.labels).tolist() for split, part in data.splits.items()}
    assert counts == {"train": [388, 286, 330], "valid": [72, 63, 69], "test": [72, 63, 69]}
    assert max(part.lengths.max() for part in data.splits.values()) < 512


def test_a_data_set_of_the_hub(tmp_path: Path) -> None:
    import datasets

    classes = datasets.ClassLabel(names=["False", "True", "Uncertain"])
    table = datasets.Dataset.from_list([problem(label=i) for i in (0, 1, 2)]).cast_column("label", classes)
    datasets.DatasetDict({"train": table, "validation": table}).save_to_disk(tmp_path / "saved")
    data = Folio(FolioOptions(dataset=str(tmp_path / "saved"), vocabulary=100)).prepare()
    assert [part.labels.tolist() for part in data.splits.values()] == [[1, 0, 2]] * 3
