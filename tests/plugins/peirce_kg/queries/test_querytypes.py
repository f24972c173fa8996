"""Files of query types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from peirce.errors import TaskError
from peirce_kg.queries.types import LONGEST_NAME, load_types


def _table(name: str) -> str:
    return f'[[type]]\nname = {json.dumps(name)}\nformula = "r1(s1,f)"\nseen = true\n'


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(b"\xef\xbb\xbf" + _table("löwe 2").encode())
    assert list(load_types(path)) == ["löwe 2"]


@pytest.mark.parametrize("name", ["", " a", "a ", "a,b", "a\nb", "a\tb", "a\x7f"])
def test_names_that_no_option_could_give_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(_table("fine") + _table(name))
    with pytest.raises(TaskError, match=r"own\.toml: type 2: the name .* must be printable, without commas"):
        load_types(path)


def test_names_fit_into_names_of_files(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(_table("a" * LONGEST_NAME))
    assert list(load_types(path)) == ["a" * LONGEST_NAME]
    path.write_text(_table("é" * (LONGEST_NAME // 2 + 1)), encoding="utf-8")
    with pytest.raises(TaskError, match=r"type 1: the name 'é+'\.\.\. has over 60 bytes"):
        load_types(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("type = 3", r"must be \[\[type\]\] tables"), ("type = " + "[" * 100_000, "query types cannot be read")],
)
def test_what_is_no_list_of_tables_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(TaskError, match=problem):
        load_types(path)
