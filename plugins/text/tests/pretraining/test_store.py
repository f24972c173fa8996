"""The store of tokens: whole or absent, made once, and made again when its shard has changed."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path

import numpy as np
import pytest

from peirce.errors import TaskError
from peirce_text.pretraining import store
from peirce_text.pretraining.examples import example_table
from peirce_text.pretraining.record import Record
from peirce_text.pretraining.store import Store
from peirce_text.text.shards import ShardError, find_shards
from peirce_text.text.tokenizer import Tokenizer


def test_tokens_are_those_of_the_text(texts: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(texts)
    (shard,) = find_shards([texts / "valid.txt"])
    counted: list[int] = []
    tokens = Store(tmp_path, tokenizer).tokens(shard, counted.append)
    lines = (texts / "valid.txt").read_text().split("\n")
    pieces = [tokenizer.pieces(line) for line in lines if line]
    assert tokens.ids.tolist() == [id for line in pieces for id in line]
    assert tokens.sentences.tolist() == np.cumsum([len(line) for line in pieces]).tolist()
    assert tokens.counts["documents"] == 20
    assert tokens.documents[-1] == len(tokens.ids) == sum(counted)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_documents_of_any_size(
    count: int, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_SENTENCES_AT_ONCE", 3)  # a document may end where a block of sentences does
    lines = (texts / "valid.txt").read_text().split("\n\n")[0].splitlines() * 7
    (tmp_path / "shard.txt").write_text("\n".join(lines[:count]))
    tokenizer = Tokenizer.load(texts)
    tokens = Store(tmp_path, tokenizer).tokens(*find_shards([tmp_path / "shard.txt"]), lambda _: None)
    assert tokens.ids.tolist() == [id for line in lines[:count] for id in tokenizer.pieces(line)]
    assert tokens.counts["documents"] == bool(count)


def test_a_second_run_finds_the_tokens_and_a_changed_shard_is_read_again(texts: Path, tmp_path: Path) -> None:
    path = tmp_path / "shard.txt"
    shutil.copy(texts / "valid.txt", path)
    kept = Store(tmp_path / "store", Tokenizer.load(texts))
    counted: list[int] = []
    first = kept.tokens(*find_shards([path]), counted.append)
    made = len(counted)
    later = Store(tmp_path / "store", Tokenizer.load(texts))
    assert later.tokens(*find_shards([path]), counted.append).digest == first.digest
    assert len(counted) == made, "tokenised twice"
    path.write_text(path.read_text() + "\nThe farmer feeds the cows.\n")
    again = kept.tokens(*find_shards([path]), counted.append)
    assert len(again.ids) > len(first.ids)
    assert again.digest != first.digest
    (again.folder / "tokens.bin").write_bytes(b"12")
    assert kept.tokens(*find_shards([path]), counted.append).digest == again.digest


def test_no_bit_of_the_store_changes_without_notice(texts: Path, tmp_path: Path) -> None:
    (shard,) = find_shards([texts / "valid.txt"])
    kept, counted = Store(tmp_path, Tokenizer.load(texts)), list[int]()
    tokens = kept.tokens(shard, counted.append)
    wanted, made = example_table(tokens, 40).tolist(), len(counted)
    names = ("tokens.bin", "sentences.bin", "documents.bin", "examples-40.bin", "shard.json")
    whole = {name: (tokens.folder / name).read_bytes() for name in names}
    for name, content in whole.items():
        place = len(content) // 3
        flipped = content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
        (tokens.folder / name).write_bytes(flipped)
        counted.clear()
        again = kept.tokens(shard, counted.append)
        assert example_table(again, 40).tolist() == wanted
        assert len(counted) == (0 if name == "examples-40.bin" else made), name
        assert {name: (tokens.folder / name).read_bytes() for name in names} == whole


def test_what_is_left_of_a_shard_that_is_damaged_is_nothing(texts: Path, tmp_path: Path) -> None:
    path = tmp_path / "shard.txt"
    path.write_bytes((texts / "valid.txt").read_bytes() + b"\xff\n")
    kept = Store(tmp_path / "store", Tokenizer.load(texts))
    with pytest.raises(ShardError, match=r"shard\.txt is damaged"):
        kept.tokens(*find_shards([path]), lambda count: None)
    assert [p.name for p in kept.folder.iterdir() if p.is_dir()] == []


def test_a_temporary_store_goes_with_its_owner(texts: Path) -> None:
    kept = Store(None, Tokenizer.load(texts))
    kept.tokens(*find_shards([texts / "valid.txt"]), lambda count: None)
    folder = kept.folder
    assert folder.is_dir()
    del kept
    gc.collect()  # it may lie in a cycle, as it does with Python 3.12
    assert not folder.exists()


def test_a_record_holds_later_runs_to_the_same_text(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data.json"
    shards = [{"shard": "a.txt", "sha256": "1"}, {"shard": "b.txt", "sha256": "2"}]
    Record(path).write_or_compare("0", {"train": {"shards": shards}})
    resumed = Record(path, holds=True)
    resumed.write_or_compare("0", {"train": {"shards": shards}})
    with pytest.raises(TaskError, match="the tokenizer is not the one that this training began with"):
        resumed.write_or_compare("1", {"train": {"shards": shards}})
    for changed, message in (
        ([shards[0]], "b.txt is missing"),
        ([*shards, {"shard": "c.txt", "sha256": "3"}], "c.txt is new"),
        ([{"shard": "a.txt", "sha256": "9"}, shards[1]], "a.txt has changed"),
        (shards[::-1], "order has changed"),
    ):
        with pytest.raises(TaskError, match=message):
            resumed.write_or_compare("0", {"train": {"shards": changed}})
