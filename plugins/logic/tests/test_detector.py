"""Relations of many texts: cached, in several processes, and as the input of the augmenter."""

from __future__ import annotations

import io
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

import peirce_logic.detector as module
from peirce.errors import InputError, TaskError, WriteError
from peirce_logic.detector import Detector
from peirce_logic.relations import LOGICAL_IDS

TEXTS = [
    "(S (NP We) (VP stay (SBAR if (S (NP it) (VP rains)))))",
    "(S (NP Ann) (CC and) (NP Bob))",
    "(S (NP They) (VP did n't (VP come)))",
]


def count_parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    parsed: list[str] = []
    detect = module._detect_as_json

    def counting(text: str, *others: Any) -> str:
        parsed.append(text)
        return detect(text, *others)

    monkeypatch.setattr(module, "_detect_as_json", counting)
    return parsed


def test_each_text_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = count_parses(monkeypatch)
    cache = tmp_path / "relations.sqlite"
    first = Detector("brackets", cache=cache).find([*TEXTS, TEXTS[0]])
    assert parsed == TEXTS
    assert first[0] == first[3]
    assert [[r.keyword for r in each.relations] for each in first[:3]] == [["if"], ["and"], ["n't"]]
    assert Detector("brackets", cache=cache).find(TEXTS) == first[:3]
    assert parsed == TEXTS
    own = tmp_path / "own.toml"
    own.write_text('[causal]\nextrinsic = ["if"]\n')  # another lexicon finds other relations
    other = Detector("brackets", lexicon=own, cache=cache).find(TEXTS)
    assert [[r.relation for r in each.relations] for each in other] == [["causal"], [], []]
    assert Detector("brackets").find(TEXTS) == first[:3]


def test_ids_of_pairs_with_specials_truncation_and_padding() -> None:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[PAD]": 3}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    tokenizer.enable_truncation(10)
    tokenizer.enable_padding(pad_id=3, pad_token="[PAD]", length=12)
    # The offsets are those of the trees' words: the parser's text, joined by spaces.
    encodings = tokenizer.encode_batch([("We stay if it rains", "Ann and Bob")])
    ids = Detector("brackets").ids([TEXTS[:2]], encodings, 1)[0, 0]
    first, second = (
        [LOGICAL_IDS[name, role] for role in ("alpha", "key", "beta")]
        for name in ("conditional", "conjunction")
    )
    # [CLS] we stay if it [SEP] ann and bob [SEP] and padding: the longer text lost its end.
    assert ids.tolist() == [0, 0, *first, 0, *second, 0, 0, 0]


def test_a_full_disk_leaves_the_cache_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "relations.sqlite"
    detector = Detector("brackets", cache=cache)
    detector.find(TEXTS[:1])
    connect = sqlite3.connect

    def full(*given: Any, **how: Any) -> sqlite3.Connection:
        base = connect(*given, **how)
        base.execute("pragma max_page_count = 1")  # SQLite then says what it says of a full disk
        return base

    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.raises(WriteError, match=f"the cache {cache} cannot be written"):
        detector.find([f"(S (NP We) (VP stay{i}))" * 100 for i in range(20)])
    assert len(detector.find(TEXTS[:1])) == 1


def test_what_is_no_cache_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    damaged, other = tmp_path / "relations.sqlite", tmp_path / "other.sqlite"
    damaged.write_bytes(b"no database" * 99)
    with closing(sqlite3.connect(other)) as base, base:
        base.execute("create table notes (said text)")
    for cache in (damaged, other):
        content = cache.read_bytes()
        with pytest.raises(InputError, match=r"the cache .* cannot be used: .*; remove it, or name another"):
            Detector("brackets", cache=cache).find(TEXTS)
        assert cache.read_bytes() == content
    with pytest.raises(InputError, match="is not a file in an existing folder; name one"):
        Detector("brackets", cache=tmp_path / "gone" / "c.sqlite")


def test_without_a_terminal_lines_tell_how_far_parsing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peirce_logic.detector.SEVERAL", 20)
    console = Console(file=io.StringIO(), width=80)
    Detector("brackets").find([f"(S (NP word{i}))" for i in range(20)], console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines == [f"parsing: {number} of 20 texts" for number in range(2, 21, 2)]


def test_halves_of_characters_are_replaced() -> None:
    (found,) = Detector("brackets").find(["(S (NP A\ud83d) (CC and) (NP Bob))"])
    assert (found.text, found.relations[0].key) == ("A\ufffd and Bob", (3, 6))


def killed(*given: Any) -> None:
    os._exit(1)


def test_a_process_that_is_killed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_detect_part", killed)
    with pytest.raises(TaskError, match=r"a worker process was killed, .* with fewer workers"):
        Detector("brackets", processes=2).find(TEXTS)


def test_what_was_parsed_before_an_error_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    detector = Detector("brackets", cache=tmp_path / "relations.sqlite")
    with pytest.raises(InputError, match="is outside of a tree"):
        detector.find([TEXTS[0], "no tree"])
    parsed = count_parses(monkeypatch)
    assert detector.find(TEXTS[:1])[0].sentences == 1
    assert parsed == []
