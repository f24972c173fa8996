from __future__ import annotations

import bz2
import errno
import gzip
import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peirce.errors import TaskError, WriteError
from peirce_text.text.documents import documents, sentences
from peirce_text.text.shards import ShardError, find_shards

LINES = ["One line.", "", "Another — line.", "The last"]


def write(folder: Path) -> dict[str, Path]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = "\n".join(LINES).encode()
    rows = "\n".join(json.dumps({"text": line, "id": i}) for i, line in enumerate(LINES)).encode()
    table = pa.table({"text": LINES, "id": range(len(LINES))})
    contents = {
        "a.txt": text,
        "a.txt.gz": gzip.compress(text),
        "a.txt.bz2": bz2.compress(text),
        "a.jsonl": rows,
        "a.jsonl.gz": gzip.compress(rows),
    }
    paths = {name: folder / name for name in (*contents, "a.parquet", "a.arrow")}
    for name, content in contents.items():
        paths[name].write_bytes(content)
    pq.write_table(table, paths["a.parquet"])
    with pa.OSFile(str(paths["a.arrow"]), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return paths


def test_every_format_streams_the_same_texts(tmp_path: Path) -> None:
    for name, path in write(tmp_path).items():
        (shard,) = find_shards([path])
        assert list(shard.texts()) == LINES, name
        assert shard.lines == name.startswith("a.txt")


def test_folders_and_patterns_are_taken_by_name(tmp_path: Path) -> None:
    paths = write(tmp_path)
    (tmp_path / "notes.pdf").write_text("no shard")
    assert [s.path for s in find_shards([tmp_path])] == sorted(paths.values())
    assert [s.path.name for s in find_shards([tmp_path / "a.txt*"])] == ["a.txt", "a.txt.bz2", "a.txt.gz"]


def test_what_is_no_shard_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    (tmp_path / "x.pdf").write_text("no shard")
    monkeypatch.chdir(tmp_path)
    for files in (["absent.txt"], ["x.pdf"], ["a.txt", "*.txt"]):
        with pytest.raises(TaskError, match=r"no shards at|unknown format|named 2 times"):
            find_shards(files)


def damage(paths: dict[str, Path]) -> dict[str, bytes]:
    gz = gzip.compress("\n".join(f"line {i} of many" for i in range(5000)).encode())
    return {
        "a.txt.gz": gz[: len(gz) // 2],
        "a.txt": b"fine\n\xff\xfe\n",
        "a.jsonl": b'{"text": "fine"}\n{"text": ',
        "a.parquet": paths["a.parquet"].read_bytes()[:-20],
        "a.arrow": b"no arrow at all",
    }


def test_damaged_shards_are_named(tmp_path: Path) -> None:
    paths = write(tmp_path)
    for name, content in damage(paths).items():
        paths[name].write_bytes(content)
        (shard,) = find_shards([paths[name]])
        with pytest.raises(ShardError, match=rf"shard .*{name} is damaged: .+; restore it or leave it out"):
            list(shard.texts())


@pytest.mark.parametrize(
    ("error", "expected"),
    [(OSError(errno.ENOSPC, "No space left on device"), WriteError), (MemoryError(), MemoryError)],
)
def test_a_machine_without_room_is_not_told_as_damage(
    error: Exception, expected: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where /dev/shm is full, where the readers keep their locks."""
    monkeypatch.setattr("datasets.load_dataset", Mock(side_effect=error))
    (shard,) = find_shards([write(tmp_path)["a.arrow"]])
    with pytest.raises(expected) as found:
        list(shard.texts())
    if expected is WriteError:
        assert re.search(
            r"what is kept while .*a.arrow is read, in .* or /dev/shm,? cannot be written", str(found.value)
        )


def test_columns_are_checked(tmp_path: Path) -> None:
    (shard,) = find_shards([write(tmp_path)["a.jsonl"]])
    with pytest.raises(TaskError, match="no column 'body'; its columns are text, id") as caught:
        list(shard.texts("body"))
    assert not isinstance(caught.value, ShardError)
    with pytest.raises(TaskError, match="'id' holds 0, which is not a text"):
        list(shard.texts("id"))


def test_where_documents_end() -> None:
    for count, wanted in ((0, ["ab", "cde"]), (1, [*"abcde"]), (2, ["ab", "cd", "e"])):
        assert list(documents(["", "a", "b ", " ", "", "c", "d", "e"], count)) == [[*each] for each in wanted]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rained. We left! Why? Because.", ["It rained.", "We left!", "Why?", "Because."]),
        ("Mr. Darcy and Mrs. A. Bennet met Dr. Who.", ["Mr. Darcy and Mrs. A. Bennet met Dr. Who."]),
        ("“Go.” He went, i.e. he left. 3.5 miles.", ["“Go.”", "He went, i.e. he left.", "3.5 miles."]),
        ("雨だ。行こう！", ["雨だ。", "行こう！"]),
        ("  ", []),
    ],
)
def test_where_sentences_end(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet=st.sampled_from("ab AB.!?。'”\n "), max_size=60))
@settings(deadline=None)
def test_sentences_lose_nothing_but_space(text: str) -> None:
    found: list[Any] = sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in found)
