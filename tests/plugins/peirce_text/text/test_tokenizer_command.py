from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from command_line import exit_code as run
from peirce_text.text.tokenizer import Tokenizer
from small_texts import blocks, documents


def test_a_tokenizer_is_trained_from_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = documents(40)
    (tmp_path / "a.txt").write_text(blocks(made[:20]))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(blocks(made[20:]).encode()))
    out = tmp_path / "new" / "tokenizer.json"
    files = (tmp_path / "a.txt", tmp_path / "b.txt.gz")
    assert run("tokenizer", "train", *files, "-o", out, "--vocabulary", 100, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {
        "schema": "peirce.tokenizer/1", "tokenizer": str(out), "vocabulary": 100, "shards": 2, "cased": False,
    }  # fmt: skip
    assert Tokenizer.load(out).content == Tokenizer.train(blocks(made).splitlines(), 100).content
    assert run("tokenizer", "train", tmp_path, "-o", out, "--cased") == 0
    assert "not 32,768: the text holds no more" in capsys.readouterr().out
    cased = Tokenizer.load(out)
    assert cased.decode(cased.pieces("The farmer")) == "The farmer"


def test_a_damaged_file_leaves_the_old_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tokenizer.json"
    out.write_text("before")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(blocks(documents(40)).encode())[:-20])
    assert run("tokenizer", "train", tmp_path / "a.txt.gz", "-o", out) == 2
    assert "a.txt.gz is damaged" in capsys.readouterr().err
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if path != out] == ["a.txt.gz"]
