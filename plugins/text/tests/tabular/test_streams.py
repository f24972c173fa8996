"""A folder of Parquet files that is streamed: every row once a pass, in an order that is drawn, and encoded lazily."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from small_specs import FOLNET

from peirce.errors import TaskError
from peirce_text.tabular import tables
from peirce_text.tabular.streams import Stream, StreamedBatch
from peirce_text.tasks import TRAIN
from peirce_training import TrainingOptions, make_task, train
from peirce_training.batches import step_batches

ROWS = 120


def write(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=7)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files with rows, one of them below another folder and with more columns, and one without rows."""
    texts = [f"the {('sun', 'rain')[i % 2]} of day {i}" for i in range(ROWS)]
    kinds = [("fair", "wet")[i % 2] for i in range(ROWS - 1)] + ["hail"]
    for name, part in (("a", slice(50)), ("deep/b", slice(50, 90)), ("c", slice(90, None))):
        more = {"more": [1.5] * len(texts[part])} if name == "deep/b" else {}
        write(tmp_path / "days" / f"{name}.parquet", text=texts[part], **more, label=kinds[part])
    write(
        tmp_path / "days" / "empty.parquet",
        text=pyarrow.array([], "string"),
        label=pyarrow.array([], "string"),
    )
    return tmp_path / "days"


def streamed(folder: Path, name: str = "classify", **options: Any) -> Any:
    common = {"data": str(folder), "stream": "yes", "vocabulary": 80, "length": 16, "batch_size": 8}
    return make_task(name, {**common, **options})


def test_every_row_is_read_once_in_the_order_that_is_drawn(folder: Path) -> None:
    stream = Stream.splits(folder)[TRAIN]
    assert stream.rows == ROWS
    plain = [row.values["text"] for row in stream.read(["text"])]
    assert plain[:2] == ["the sun of day 0", "the rain of day 1"]
    orders = [
        [row.values["text"] for row in stream.read(["text"], np.random.default_rng(i))] for i in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert Counter(orders[0]) == Counter(plain)
    assert next(iter(stream.read(["label", "text"]))).values == {"text": "the sun of day 0", "label": "fair"}


def test_files_are_the_splits_that_their_names_say(folder: Path) -> None:
    write(folder / "val-00000-of-00001.parquet", text=["sun"], label=["fair"])
    write(folder / "test" / "a.parquet", text=["rain"], label=["wet"])
    expected = {"train": ROWS, "valid": 1, "test": 1}
    assert {split: stream.rows for split, stream in Stream.splits(folder).items()} == expected
    (folder.parent / "judges.csv").write_text("text,label\nsun,fair\nrain,wet\n")
    for stream in ("yes", "no"):
        splits = streamed(folder, stream=stream).prepare().splits
        assert {split: len(part) for split, part in splits.items()} == expected
        named = streamed(folder, stream=stream, valid_data=str(folder.parent / "judges.csv")).prepare().splits
        assert {split: len(part) for split, part in named.items()} == {**expected, "valid": 2}


def test_a_sample_has_every_class_and_the_rest_is_learned_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SAMPLE", 40)
    task = streamed(folder, weights="balanced")
    data = task.prepare()
    looked_at = sum(map(len, data.splits.values()))
    assert 20 < looked_at < 70
    assert data.classes == ("fair", "hail", "wet")
    aside = sum(len(part) for split, part in data.splits.items() if split != TRAIN)
    passes = [list(task.batches(data, TRAIN, 0, epoch)) for epoch in (0, 0, 1)]
    counted = [
        Counter(row.tobytes() for batch in each for row in batch["input_ids"].numpy()) for each in passes
    ]
    assert [sum(task.targets(batch)["loss"] for batch in each) for each in passes] == [ROWS - aside] * 3
    assert (passes[0][0]["input_ids"] == passes[1][0]["input_ids"]).all()
    assert counted[0].total() == counted[2].total()
    first, later = (next(iter(each))["input_ids"] for each in (passes[0], passes[2]))
    assert first.shape != later.shape or (first != later).any()
    pairs = (zip(batch["labels"].tolist(), batch["weights"].tolist(), strict=True) for batch in passes[0])
    weights = {pair for each in pairs for pair in each}
    assert len(weights) == 3  # one for each class, whatever the batch


def test_a_class_is_known_by_its_first_row_with_a_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "0.parquet", text=[" "], label=["hail"])
    monkeypatch.setattr(tables, "SAMPLE", 1)
    write(folder / "z.parquet", text=["sun of one day", "rain of another"], label=["fair", "wet"])
    task = streamed(folder, valid_share=0, test_share=0)
    data = task.prepare()
    assert data.classes == ("fair", "hail", "wet")
    assert sum(task.targets(batch)["loss"] for batch in task.batches(data, TRAIN, 0, 0)) == ROWS + 2


def test_a_process_encodes_its_own_batches_alone() -> None:
    encoded: list[int] = []

    def batch(i: int) -> StreamedBatch:
        return StreamedBatch({"loss": 2}, lambda: encoded.append(i) or {})  # type: ignore[func-returns-value]

    task = streamed(Path("nowhere"))
    for each, _, _ in step_batches(task, map(batch, range(6)), 6, process=1, processes=2):
        dict(each)
    assert encoded == [1, 3, 5]


def test_a_streamed_training_resumes_to_the_bit(folder: Path, tmp_path: Path) -> None:
    options = {"steps": 4, "save_every": 1, "keep": 9, "device": "cpu", "threads": 1, "test_split": ""}
    whole = train(FOLNET, streamed(folder), TrainingOptions(**options), tmp_path / "whole")
    part = {**options, "evaluate_every": 3, "monitor": "accuracy"}

    def end(share: float, value: float, metrics: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(FOLNET, streamed(folder), TrainingOptions(**part), tmp_path / "part", watch=end)
    again = train(FOLNET, streamed(folder), TrainingOptions(**part), tmp_path / "part", resume=True)
    assert again.losses == whole.losses


def test_tags_are_streamed_where_words_are_lists(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "few" / "a.parquet", tokens=[["the", "sun"]] * 40, tags=[["O", "B-day"]] * 40)
    with pytest.raises(TaskError, match=r"32 of 32 rows .* kept aside, since few different ones repeat"):
        streamed(tmp_path / "few", "tag").prepare()
    words = [["the", "sun", str(i)] for i in range(40)]
    write(tmp_path / "words" / "a.parquet", tokens=words, tags=[["O", "B-day", "O"]] * 40)
    task = streamed(tmp_path / "words", "tag")
    data = task.prepare()
    batches = list(task.batches(data, TRAIN, 0, 0))
    assert [task.targets(batch) for batch in batches] == [
        {"loss": int((b["labels"] >= 0).sum())} for b in batches
    ]
    write(tmp_path / "single" / "a.parquet", tokens=["the", "sun"] * 20, tags=["O", "B-day"] * 20)
    with pytest.raises(TaskError, match="has the words of a text as a list"):
        streamed(tmp_path / "single", "tag").prepare()


def test_what_cannot_be_streamed_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"stream=yes is for a folder of \.parquet files"):
        streamed(folder / "a.parquet").prepare()
    with pytest.raises(TaskError, match="the task 'rank' reads all rows at once"):
        streamed(folder, "rank", text="text", pair="label").prepare()
    write(folder / "d.parquet", words=["a"], label=["fair"])
    with pytest.raises(TaskError, match=r"d\.parquet, row 1: unknown column 'text'"):
        streamed(folder).prepare()
    (folder / "d.parquet").write_text("no table")
    with pytest.raises(TaskError, match=r"d\.parquet cannot be read as Parquet"):
        streamed(folder).prepare()
