"""The files of SentEval's tasks: the published ones as they are, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from senteval_files import write_senteval

from peirce.errors import TaskError
from peirce_tpru.senteval.files import TASKS, TEST, TRAIN, VALID, read_task, tasks_in

SICK = "sentence_A\tsentence_B\trelatedness_score"


def test_the_published_files_have_the_published_sizes(shared: Path) -> None:
    folder = shared / "data" / "senteval"
    assert tasks_in(folder) == [task for task in TASKS if task != "STS-B"]
    sizes = {
        "CR": {TRAIN: 3775}, "MPQA": {TRAIN: 10606}, "SST-5": {TRAIN: 8544, VALID: 1101, TEST: 2210},
        "TREC": {TRAIN: 5452, TEST: 500}, "MRPC": {TRAIN: 4076, TEST: 1725},
        "STS12": {"MSRpar": 750, "SMTeuroparl": 459, "OnWN": 750, "SMTnews": 399},
    }  # fmt: skip
    for task, wanted in sizes.items():
        assert {split: len(own) for split, own in read_task(folder, task).items()} == wanted


def test_each_format_is_read(tmp_path: Path) -> None:
    write_senteval(tmp_path, 6)
    assert tasks_in(tmp_path) == ["MR", "SST-2", "TREC", "MRPC", "SICK-E", "SICK-R", "STS15"]
    assert read_task(tmp_path, "TREC")[TEST].texts[0][2] == "caf\xe9 the dog runs ."  # Latin-1
    assert len(read_task(tmp_path, "MRPC")[TRAIN]) == 12
    assert read_task(tmp_path, "SICK-E")[TEST].labels.tolist() == [1, 2] * 3
    assert read_task(tmp_path, "SICK-R")[TEST].labels.tolist() == [2.5, 4.6] * 3
    found = {name: own.labels.tolist() for name, own in read_task(tmp_path, "STS15").items()}
    assert found == {"belief": [5, 1, 4], "images": [5, 1, 4]}
    few = read_task(tmp_path, "MR")[TRAIN].first(3)
    assert np.array_equal(few.labels, [0, 0, 1])  # the first, the third and the last


@pytest.mark.parametrize(
    ("task", "name", "content", "said"),
    [
        ("MR", "rt-polarity.all", "2 good\n", r"line 1: '2 good', where a class from 0 to 1"),
        ("MR", "rt-polarity.all", "\n", "no examples"),
        ("SICK-R", "SICK_train.tsv", f"{SICK}\na\tb\t9\n", r"row 1: '9'.* 1 to 5"),
        ("STS15", "2015.images.test.tsv", "1.0\ta\n", r"line 1: 2 fields"),
        ("TREC", "other", "", r"no file TREC\.train\.all"),
        ("STS16", "other", "", r"none of the files of STS16"),
        ("SST2", "other", "", r"no task of SentEval .*'SST2'.*SST-2|SST-2"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, task: str, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(TaskError, match=said):
        read_task(tmp_path, task)
    if name == "other":
        with pytest.raises(TaskError, match="no files of SentEval's tasks"):
            tasks_in(tmp_path)
