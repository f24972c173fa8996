"""Files from outside: what is refused by its kind, its size, its depth, and what it unpacks to."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from peirce.commands import print_json, print_table
from peirce.errors import LONGEST, InputError, PeirceError, printable, unknown
from peirce.files import (
    UnreadableError,
    check_file,
    open_file,
    parse_integer,
    parse_json,
    parse_toml,
    read_bytes,
    read_json,
    read_lines,
    read_text,
    size_limit,
)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/zero")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
    for path in tmp_path.iterdir():
        for read in (check_file, open_file, read_bytes, read_text, read_json):
            with pytest.raises(UnreadableError, match=r"^it is a (pipe or a device|folder)"):
                read(path)


def test_a_file_beyond_the_bound_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, 10**11)  # without a byte on the disk
    for read in (read_bytes, read_text, read_json):
        with pytest.raises(UnreadableError, match="genuine, set PEIRCE_LIMIT to more than 2GB"):
            read(path)
    os.truncate(path, 2000)
    monkeypatch.setenv("PEIRCE_LIMIT", "8kB")
    assert read_bytes(path) == bytes(2000)
    with pytest.raises(UnreadableError, match=r"it has more than 0.001 MB"):
        read_bytes(path, text=True)
    monkeypatch.setenv("PEIRCE_LIMIT", "much")
    with pytest.raises(InputError, match=r"^PEIRCE_LIMIT: 'much' is not a size such as 64MB or 2GB"):
        size_limit()


def test_a_whole_number_has_few_digits() -> None:
    assert [parse_integer(text) for text in ("0", "012", "9" * 18)] == [0, 12, 10**18 - 1]
    assert [parse_integer(text) for text in ("", "-1", "²", "1.0", " 1", "1\n", "9" * 19)] == [None] * 7


@pytest.mark.parametrize("text", ["[" * 10**6, '{"a":' * 10**5, '[{"a":' * 33 + "1" + "}]" * 33])
def test_tables_and_lists_may_not_be_nested_deeply(text: str) -> None:
    with pytest.raises(ValueError, match="nested more than 64 deep"):
        parse_json(text)
    assert parse_json("[" * 64 + "]" * 64)
    for toml in ("a = " + "[" * 10**5, "a." * 100 + "b = 1"):
        with pytest.raises(ValueError, match="deep"):
            parse_toml(toml)
    assert parse_toml(f'x = "{"a." * 1000}"') == {"x": "a." * 1000}


@pytest.mark.parametrize("harm", [slice(-20), 30, -5])
def test_a_gzipped_file_that_is_cut_or_altered_is_refused(harm: slice | int, tmp_path: Path) -> None:
    path, data = tmp_path / "a.gz", bytearray(gzip.compress(bytes(range(256)) * 4, mtime=0))
    if isinstance(harm, slice):
        data = data[harm]
    else:
        data[harm] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(OSError, match="damaged"), open_file(path) as file:
        file.read()


def test_a_gzip_bomb_is_refused_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", 9) as file:
        for _ in range(80):
            file.write(b"a\tb\tc\n" * 170_000)
    with open_file(path) as file, pytest.raises(UnreadableError, match="more than 200 times its size"):
        for _ in read_lines(file):
            pass


def test_a_line_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb")
    with open_file(path) as file:
        assert list(read_lines(file)) == [b"a\n", b"b"]
    os.truncate(path, 10**11)
    monkeypatch.setenv("PEIRCE_LIMIT", "128MB")
    with open_file(path) as file, pytest.raises(UnreadableError, match=r"a line is longer than 1 MB"):
        list(read_lines(file))


def test_messages_are_cut_and_cannot_steer_a_terminal() -> None:
    said = str(PeirceError("a\x1b[2J\r\x9b\u202e\ud800\n" + "x" * 10**5 + "; do this"))
    assert said.startswith("a\\u001b[2J\\u000d\\u009b\\u202e\\ud800\nxxx")
    assert said.endswith("x; do this")
    assert len(said) < LONGEST + 50
    assert "characters are left out" in said
    assert printable(said) == printable(printable(said))
    assert len(unknown("part", "y" * 10**6, ["one", "two"])) < 500
    assert printable("naïve 日本\tx\n") == "naïve 日本\tx\n"


def test_tables_and_objects_of_commands_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b]0;x\x07\x9b2J\u202e"
    print_table(("name",), [(hostile,)])
    print_json("test/1", name=hostile, plain="ü\n\t")
    said = capsys.readouterr().out
    assert not set(said) & set(hostile[1:]) - set("]0;x2J")
    assert json.loads(said[said.index("{") :]) == {"schema": "test/1", "name": hostile, "plain": "ü\n\t"}


def test_a_text_is_read_gzipped_or_not_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    plain.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_text(plain) == read_text(packed) == "one\ntwo\nthree\n"
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(UnreadableError, match="its end is missing"):
        read_text(packed)
    packed.write_bytes(gzip.compress(b"a" * 1001))
    monkeypatch.setenv("PEIRCE_LIMIT", "8000")
    with pytest.raises(UnreadableError, match=r"more than 0.001 MB"):
        read_text(packed)
