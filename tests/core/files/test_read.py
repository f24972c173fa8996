"""Files from outside: what is refused by its kind, its size, its depth, and what it unpacks to."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from peirce.commands import as_json, as_table
from peirce.errors import LONGEST, InputError, PeirceError, printable, unknown
from peirce.files import (
    BOUNDS,
    DEEPEST,
    LIMITS_VARIABLE,
    TooDeepError,
    UnreadableError,
    open_file,
    open_unpacked,
    parse_json,
    parse_toml,
    read_lines,
    unicode_text,
    unpacked_text,
    whole_number,
)
from peirce.files import read as reading


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a socket has at most a hundred characters
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (_pipe, "a pipe"),
        (_socket, "a socket"),
        (Path.mkdir, "a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.symlink_to("/dev/null"), "a device"),
        (lambda path: path.symlink_to(path.parent), "a folder"),
    ],
)
def test_only_regular_files_are_read(make: Callable[[Path], None], what: str, tmp_path: Path) -> None:
    path = tmp_path / "given"
    make(path)
    for use in (
        lambda: reading.check_file(path),
        lambda: open_file(path),
        lambda: reading.read_bytes(path, "asset"),
        lambda: reading.read_text(path, "spec"),
        lambda: reading.read_json(path),
        lambda: reading.read_toml(path),
        lambda: open_unpacked(path),
    ):
        with pytest.raises(UnreadableError, match=f"^it is {what}"):
            use()


@pytest.mark.parametrize("kind", BOUNDS)
def test_a_file_beyond_its_bound_is_not_read(
    kind: reading.Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, BOUNDS[kind][0] + 1)  # without a byte on the disk
    with pytest.raises(UnreadableError, match=f"if it is right, set PEIRCE_LIMITS={kind}=SIZE"):
        reading.read_bytes(path, kind)
    os.truncate(path, 2000)
    monkeypatch.setenv("PEIRCE_LIMITS", f"{kind}=1.5kB")
    with pytest.raises(
        UnreadableError, match=rf"it has 2 kB, and a file of this kind \({kind}\) at most 1.5 kB"
    ):
        reading.read_bytes(path, kind)
    monkeypatch.setenv("PEIRCE_LIMITS", f"line=1, {kind} = 2KB")
    assert reading.read_bytes(path, kind) == bytes(2000)


def test_a_whole_number_has_few_digits() -> None:
    assert [whole_number(text) for text in ("0", "012", "9" * 18)] == [0, 12, 10**18 - 1]
    assert [whole_number(text) for text in ("", "-1", "²", "1.0", " 1", "1\n", "9" * 19)] == [None] * 7


@pytest.mark.parametrize("text", ["recod=1MB", "record", "record=-1", "record=many", "=1MB"])
def test_limits_that_cannot_be_read_are_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEIRCE_LIMITS", text)
    with pytest.raises(InputError, match=r"^PEIRCE_LIMITS: "):
        reading.bound_of("spec")


def test_text_is_read_as_editors_write_it(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n")
    assert reading.read_text(path, "text") == "a\nb\nc\n"


@pytest.mark.parametrize(
    "text", ["[" * 10**6, '{"a":' * 10**5, "[" * 66 + "]" * 66, '[{"a":' * 33 + "1" + "}]" * 33]
)
def test_json_may_not_be_nested_deeply(text: str) -> None:
    with pytest.raises(TooDeepError, match=f"nested more than {DEEPEST} deep"):
        parse_json(text)
    assert parse_json("[" * DEEPEST + "]" * DEEPEST)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 10**5,
        "a." * 4 * 10**5 + "b = 1",
        "[" + "a." * 4 * 10**5 + "b]",
        "'a' . " * 10**5 + "b=1",
    ],
)
def test_toml_may_not_be_nested_deeply(text: str) -> None:
    with pytest.raises(TooDeepError):
        parse_toml(text)
    assert parse_toml(f'x = "{"a." * 1000}"') == {"x": "a." * 1000}


@pytest.mark.parametrize("harm", [lambda data: data[:-20], lambda data: data[:30] + b"\xff" + data[31:]])
def test_a_gzipped_file_that_is_cut_or_altered_is_refused(
    harm: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(harm(gzip.compress(bytes(range(256)) * 4, mtime=0)))
    with pytest.raises(OSError, match=r"damaged|CRC"), open_unpacked(path) as file:
        file.read()


def test_a_gzip_bomb_is_refused_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", 9) as file:
        for _ in range(80):
            file.write(b"a\tb\tc\n" * 170_000)
    with (
        open_unpacked(path) as file,
        pytest.raises(UnreadableError, match="unpacks to more than 200 times its size"),
    ):
        for _ in read_lines(file):
            pass


def test_a_line_has_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb")
    with open_file(path) as file:
        assert list(read_lines(file)) == [b"a\n", b"b"]
    os.truncate(path, 10**11)
    with open_file(path) as file, pytest.raises(UnreadableError, match="a line is longer than 16 MB"):
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


def test_json_in_error_reports_stays_json() -> None:
    assert json.loads(json.dumps(str(PeirceError("\ud800")))) == "\\ud800"


def test_the_page_on_security_lists_every_bound() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+ \w+) \| (.+) \|$", page, re.MULTILINE)
    assert {kind: reading.parse_size(text) for kind, text, _ in rows} == {
        k: most for k, (most, _) in BOUNDS.items()
    }
    assert {kind: what.replace("`", "") for kind, _, what in rows} == {
        kind: what.replace("`", "") for kind, (_, what) in BOUNDS.items()
    }


def test_tables_and_objects_of_commands_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b]0;x\x07\x9b2J\u202e"
    as_table(("name",), [(hostile,)])
    as_json("test/1", name=hostile, plain="ü\n\t")
    said = capsys.readouterr().out
    assert not set(said) & set(hostile[1:]) - set("]0;x2J")
    assert json.loads(said[said.index("{") :]) == {"schema": "test/1", "name": hostile, "plain": "ü\n\t"}


def test_a_text_is_read_gzipped_or_not_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    plain.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert unpacked_text(plain, "text") == unpacked_text(packed, "text") == "one\ntwo\nthree\n"
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(UnreadableError, match="its end is missing"):
        unpacked_text(packed, "text")
    packed.write_bytes(gzip.compress(b"a" * 1001))
    monkeypatch.setenv(LIMITS_VARIABLE, "text=1000")
    with pytest.raises(UnreadableError, match="text"):
        unpacked_text(packed, "text")


def test_halves_of_characters_are_no_text() -> None:
    assert unicode_text("\N{DOG}", "a text") == "\N{DOG}"
    with pytest.raises(InputError, match="a text: character 1 is no character of Unicode"):
        unicode_text("a\udcff", "a text")
