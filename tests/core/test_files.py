"""Files that are whole or absent."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from peirce.files import NO_DIGESTS, AlteredError, read_record, replacing, write_json, write_whole


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_whole(path, "bône\n")
    assert path.read_bytes() == "bône\n".encode()
    path.chmod(0o640)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_a_new_file_has_the_permissions_that_files_have_here(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    write_whole(tmp_path / "whole", b"")
    assert (tmp_path / "whole").stat().st_mode == plain.stat().st_mode


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"there is no folder {tmp_path / 'none'}$"):
        write_whole(tmp_path / "none" / "a.txt", "")


def test_a_rename_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, "new")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def stop(path: Path) -> None:
        with replacing(path) as fresh:
            fresh.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop(tmp_path / "a.txt")
    assert not list(tmp_path.iterdir())


def test_a_directory_or_a_device_is_not_replaced(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(FileExistsError, match="is a directory or a device"):
            write_whole(path, "text")
    assert Path("/dev/null").is_char_device()
    assert list(tmp_path.iterdir()) == []


def test_no_bit_of_a_json_file_that_peirce_wrote_changes_without_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, content = (
        tmp_path / "training.json",
        {"schema": "x/1", "seed": 3, "rate": 0.1, "of": ["ä", None, True]},
    )
    write_json(path, content | {"lost": math.nan})
    whole, wanted = path.read_bytes(), content | {"lost": None}
    assert read_record(path) == wanted
    seen = 0
    for place, bit in itertools.product(range(len(whole)), range(8)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
        try:
            # Where the name of the digest is hit, the rest is as it was written.
            assert {key: value for key, value in read_record(path).items() if key in wanted} == wanted
        except ValueError:
            seen += 1
    assert seen > 0.8 * 8 * len(whole)
    path.write_bytes(whole.replace(b'"seed": 3', b'"seed": 4'))
    with pytest.raises(AlteredError, match="another digest than it says"):
        read_record(path)
    monkeypatch.setenv(NO_DIGESTS, "1")
    assert read_record(path)["seed"] == 4


def test_a_json_file_of_an_earlier_version_has_no_digest_and_is_read(tmp_path: Path) -> None:
    (tmp_path / "training.json").write_text('{"seed": 3}')
    assert read_record(tmp_path / "training.json") == {"seed": 3}
