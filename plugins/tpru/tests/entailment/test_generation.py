"""Pairs made anew: exact, balanced, the same for any number of workers, resumed, and apart from published ones."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from unittest.mock import Mock

import pytest

from peirce.errors import TaskError
from peirce_tpru.cli import generate as command
from peirce_tpru.entailment import generation
from peirce_tpru.entailment.files import guess, read_pairs
from peirce_tpru.entailment.formulas import entails, rename_in_order
from peirce_tpru.entailment.generation import generate, histograms, published_histograms


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "FOURS", 10)


def test_labels_are_exact_and_no_proposition_gives_one_away(tmp_path: Path) -> None:
    made = generate(tmp_path, 78, seed=1)
    pairs = read_pairs(made.file)
    assert len(pairs) == made.pairs == 80
    for pair in pairs:
        assert entails(pair.one, pair.other) == pair.entails
        assert guess(pair.one, pair.other) == pair.guesses
        assert not entails(pair.one, "(p&~(p))")
        assert not entails("(p|~(p))", pair.other)
    for start in range(0, len(pairs), 4):
        stands = defaultdict(list)
        for pair in pairs[start : start + 4]:
            stands["A", pair.one].append(pair.entails)
            stands["B", pair.other].append(pair.entails)
        assert all(sorted(labels) == [False, True] for labels in stands.values())
        assert len(stands) == 4
    assert len({rename_in_order(pair.one, pair.other) for pair in pairs}) == len(pairs)


def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = generate(tmp_path / "whole", 80).file.read_bytes()
    drawn = generation.block
    asked: list[int] = []

    def failing(seed: int, number: int) -> str:
        asked.append(number)
        if asked.count(1) == 1 and number == 1:
            raise KeyboardInterrupt
        return drawn(seed, number)

    monkeypatch.setattr(generation, "block", failing)
    with pytest.raises(KeyboardInterrupt):
        generate(tmp_path / "cut", 80)
    assert not (tmp_path / "cut" / "train.txt").exists()
    (kept,) = (tmp_path / "cut").glob(".*.parts/*")
    content = kept.read_bytes()
    kept.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    with pytest.raises(TaskError, match=r"000000.txt.gz cannot be read: .*; remove it, and run it again"):
        generate(tmp_path / "cut", 80)
    kept.write_bytes(content)
    assert generate(tmp_path / "cut", 80).file.read_bytes() == whole
    assert asked == [0, 1, 1]
    assert [path.name for path in (tmp_path / "cut").iterdir()] == ["train.txt"]


def test_a_call_killed_after_its_last_file_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(generation, "rmtree", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            generate(tmp_path, 80)
    whole = (tmp_path / "train.txt").read_bytes()
    assert generate(tmp_path, 80).file.read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt"]


def test_processes_make_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # processes draw blocks of the real size
    one, two = (generate(tmp_path / str(n), 1004, workers=n).file.read_bytes() for n in (1, 2))
    assert one == two


def test_published_pairs_are_left_out_whatever_their_variables_are_called(tmp_path: Path) -> None:
    first = read_pairs(generate(tmp_path / "first", 80).file)
    names = str.maketrans("abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba")
    (tmp_path / "published").mkdir()
    renamed_line = first[5].line.translate(names)
    (tmp_path / "published" / "test_easy.txt").write_text(renamed_line + "\n", encoding="utf-8")
    made = generate(tmp_path / "again", 80, published=tmp_path / "published")
    assert (made.published, made.duplicates, made.pairs) == (4, 4, 80)
    assert first[5].line not in {pair.line for pair in read_pairs(made.file)}


def test_the_command_shows_published_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command(tmp_path, pairs=200, json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["pairs"] == 2 * said["entailed"] == 200
    assert said["shares"].keys() == published_histograms().keys()
    with pytest.raises(TaskError, match="exists already"):
        command(tmp_path, pairs=200)
    zipped = (tmp_path / "train.txt").rename(tmp_path / "train.txt.gz")
    for folder, pairs, words in (
        (tmp_path, 200, r"train\.txt\.gz exists already"),
        (zipped, 200, r"train\.txt\.gz is a file; give the folder"),
        (tmp_path / "many", 10**14, "the limit is 10,000,000"),
    ):
        with pytest.raises(TaskError, match=words):
            command(folder, pairs=pairs, overwrite=True)


def test_the_published_sizes_are_those_of_the_file(shared: Path) -> None:
    pairs = read_pairs(shared / "data" / "logical-entailment" / "validate.txt.gz")
    assert histograms(pairs) == published_histograms()
