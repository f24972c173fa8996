"""Files that are whole or absent, one writer at a time, and one sentence for a disk that takes no more."""

from __future__ import annotations

import errno
import math
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from peirce.errors import BusyError, PeirceError, WriteError
from peirce.files import (
    disk_error,
    explain_disk_errors,
    hold_lock,
    read_json,
    replace_file,
    scratch_folder,
    write_json,
    write_whole,
)

LIMIT = 1000


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path, plain = tmp_path / "a.txt", tmp_path / "plain"
    plain.touch()
    write_whole(path, "bône\n")
    assert path.read_bytes() == "bône\n".encode()
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.txt", "plain"]


def test_a_writer_or_a_rename_that_fails_leaves_what_stood_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with suppress(KeyboardInterrupt), replace_file(path) as fresh:
        fresh.write_text("half")
        raise KeyboardInterrupt
    monkeypatch.setattr("os.replace", Mock(side_effect=OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, "new")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]
    with pytest.raises(FileNotFoundError, match=f"folder {tmp_path / 'none'} does not exist"):
        write_whole(tmp_path / "none" / "a.txt", "")


def test_a_directory_or_a_device_is_not_replaced(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(FileExistsError, match="is a directory or a device"):
            write_whole(path, "text")
    assert Path("/dev/null").is_char_device()
    assert list(tmp_path.iterdir()) == []


def test_a_record_is_read_as_it_was_written_and_one_of_0_2_without_its_own_digest(tmp_path: Path) -> None:
    path = tmp_path / "training.json"
    write_json(path, {"seed": 3, "of": ["ä", None, True], "lost": math.nan})
    assert read_json(path) == {"seed": 3, "of": ["ä", None, True], "lost": None}
    path.write_text('{"own_digest": "of another", "seed": 3}')
    assert read_json(path) == {"seed": 3}


_HOLDER = """
import sys
from pathlib import Path
from peirce.files import hold_lock, scratch_folder
place = Path(sys.argv[1])
with hold_lock(place, folder=True), scratch_folder(place) as folder:
    (folder / "half").mkdir()
    (folder / "half" / "a.txt").write_text("half")
    print("holds", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(place: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes to a folder and beside it."""
    command = [sys.executable, "-P", "-c", _HOLDER, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_process_is_refused_and_a_dead_one_is_followed(tmp_path: Path) -> None:
    place = tmp_path / "runs" / "a"
    with holder(place) as process:
        said = f"another process writes to {place}; wait until it has ended"
        with pytest.raises(BusyError, match=said), hold_lock(place, folder=True):
            raise AssertionError
        write_whole(tmp_path / "runs" / "b", "")
        left = [path for path in place.parent.iterdir() if path.name not in ("a", "b")]
        assert [path.name.partition(".peirce-")[0] for path in left] == [".a"], "a living writer's is kept"
        process.kill()
        process.wait()
        with hold_lock(place, folder=True):
            write_whole(place / "c", "")
            write_whole(tmp_path / "runs" / "b", "")
    assert sorted(path.name for path in place.parent.iterdir()) == ["a", "b"]
    assert [path.name for path in place.iterdir()] == ["c"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")
def test_a_place_where_no_file_can_be_is_not_taken_for_a_busy_one() -> None:
    with pytest.raises(FileNotFoundError), hold_lock(Path("/proc/a.onnx"), folder=False):
        raise AssertionError


def test_a_thread_may_ask_again_within_its_block_and_others_may_not(tmp_path: Path) -> None:
    def taken() -> None:
        with hold_lock(tmp_path / "a.onnx", folder=False):
            pass

    with hold_lock(tmp_path / "a.onnx", folder=False):
        taken()
        with ThreadPoolExecutor() as other, pytest.raises(BusyError):
            other.submit(taken).result()
        assert len(list(tmp_path.iterdir())) == 1
    assert not list(tmp_path.iterdir())


def test_threads_that_wait_write_one_after_the_other(tmp_path: Path) -> None:
    inside, most = [], []

    def write() -> None:
        for _ in range(5):
            with hold_lock(tmp_path / "a", folder=False, wait=True):
                inside.append(1)
                most.append(len(inside))
                write_whole(tmp_path / "a", "x")
                inside.pop()

    with ThreadPoolExecutor() as threads:
        for written in [threads.submit(write) for _ in range(4)]:
            written.result()
    assert most == [1] * 20
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_stays_empty_goes_with_what_was_made_for_it(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), hold_lock(tmp_path / "a" / "b", folder=True):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_what_others_named_so_stays(tmp_path: Path) -> None:
    mine = tmp_path / ".mine.peirce-0123456789ab"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    (tmp_path / ".link.peirce-0123456789ab").symlink_to(mine)
    before = sorted(tmp_path.rglob("*"))
    write_whole(tmp_path / "a", "")
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "a"])


@pytest.fixture
def small_files() -> Iterator[None]:
    """Files of a thousand bytes at most; the system then says EFBIG, at the same calls as it says ENOSPC."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _parquet(path: Path) -> None:
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    pyarrow.parquet.write_table(pyarrow.table({"a": np.random.default_rng(0).random(4 * LIMIT)}), path)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "open": lambda path: path.write_bytes(b"0" * 4 * LIMIT),
    "tofile": lambda path: np.zeros(4 * LIMIT).tofile(path),
    "savez": lambda path: np.savez(path, a=np.zeros(4 * LIMIT)),
    "safetensors": lambda path: save_file({"a": torch.zeros(4 * LIMIT)}, path),
    "parquet": _parquet,
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.usefixtures("small_files")
def test_every_library_is_understood(tmp_path: Path, writer: str) -> None:
    with pytest.raises(WriteError) as error, explain_disk_errors("the thing", "the rest is whole"):
        WRITERS[writer](tmp_path / "a")
    assert str(error.value).startswith("the thing cannot be written: ")
    assert "; the rest is whole; " in str(error.value)
    assert str(error.value).endswith(", and run it again")


@pytest.mark.usefixtures("small_files")
def test_a_file_that_does_not_fit_leaves_nothing_and_the_outermost_knows_what_is_safe(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, "old")
    with (
        pytest.raises(WriteError) as error,
        explain_disk_errors("a training", "the checkpoint of step 3 is whole"),
    ):
        write_whole(path, "0" * 4 * LIMIT)
    text = f"{path} cannot be written: {os.strerror(errno.EFBIG)}; the checkpoint of step 3 is whole; raise the limit"
    assert str(error.value).startswith(text)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_a_full_disk_behind_another_error_is_told_and_other_errors_are_left_alone() -> None:
    said = f"x cannot be written: {os.strerror(errno.ENOSPC)}; y; "
    with pytest.raises(WriteError, match=said), explain_disk_errors("x", "y"):
        raise ValueError("a library's own") from OSError(errno.ENOSPC, "full")
    others = PermissionError(errno.EACCES, "no"), ValueError("5 requested and 3 written"), PeirceError("x")
    for error in others:
        with pytest.raises(type(error)) as found, explain_disk_errors("x", "y"):
            raise error
        assert found.value is error
        assert disk_error(error) is None


def test_without_permission_the_file_that_was_wanted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", Mock(side_effect=PermissionError(errno.EACCES, "denied", "scratch")))
    with pytest.raises(PermissionError, match=r"table\.csv'"), scratch_folder(tmp_path / "table.csv"):
        pass
