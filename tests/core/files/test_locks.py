"""Claims on places: one holder at a time, and none after the holder's end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from peirce.errors import BusyError
from peirce.files import LOCK, LeftoverWarning, Lock, Owner, locked, replacing, write_whole
from peirce.files import locks as owners

_HOLDER = """
import sys
from pathlib import Path
from peirce.files import scratch
from peirce.files import locked
place = Path(sys.argv[1])
with locked(place, folder=True), scratch(place) as folder:
    (folder / "half").mkdir()
    (folder / "half" / "a.txt").write_text("half")
    print("holds", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(place: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns a folder and writes beside it."""
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
        with pytest.raises(BusyError) as refused, locked(place, folder=True):
            raise AssertionError
        for part in (
            f"process {process.pid} on {os.uname().nodename} since ",
            str(place),
            "wait until it has ended",
        ):
            assert part in str(refused.value)
        write_whole(tmp_path / "runs" / "b", "")
        left = [path for path in place.parent.iterdir() if path.name not in ("a", "b")]
        assert [path.name.partition(".peirce-")[0] for path in left] == [".a"], (
            "a living writer keeps its folder"
        )
        process.kill()
        process.wait()
        with locked(place, folder=True):
            write_whole(place / "c", "")
            write_whole(tmp_path / "runs" / "b", "")
    assert sorted(path.name for path in place.parent.iterdir()) == ["a", "b"]
    assert [path.name for path in place.iterdir()] == ["c"]


def test_a_process_may_ask_again_within_but_not_beside(tmp_path: Path) -> None:
    file = tmp_path / "a.onnx"
    with locked(file, folder=False):
        with locked(file, folder=False):
            assert [path.name for path in tmp_path.iterdir()] == [f".a.onnx{LOCK}"]
        with holder(tmp_path / "other"):
            pass
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".a")] == []


def test_a_folder_that_stays_empty_goes_with_what_was_made_for_it(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), locked(tmp_path / "a" / "b", folder=True):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("same", [True, False], ids=["this start", "another start"])
@pytest.mark.parametrize("local", [True, False], ids=["own disk", "a share"])
def test_what_a_free_lock_proves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, same: bool, local: bool
) -> None:
    """A share may keep another machine's locks to that machine: its claims stay, and are named."""
    monkeypatch.setattr(owners, "_file_system", lambda _: "ext4" if local else "nfs4")
    me = Owner.me()
    dead = {"pid": me.pid, "host": "elsewhere", "since": me.since, "start": me.start if same else "x"}
    (tmp_path / LOCK).write_text(json.dumps(dead))
    left = tmp_path / ".a.peirce-0123456789ab"
    left.mkdir()
    (left / LOCK).write_text(json.dumps(dead))
    if same or local:
        with locked(tmp_path, folder=True), replacing(tmp_path / "a") as fresh:
            fresh.touch()
        assert [path.name for path in tmp_path.iterdir()] == ["a"]
        return
    said = f"elsewhere since .* cannot be seen from .* remove {tmp_path / LOCK};"
    with pytest.raises(BusyError, match=said), locked(tmp_path, folder=True):
        raise AssertionError
    with pytest.warns(LeftoverWarning, match=f"on elsewhere since .* left {left}, or still writes there"):
        write_whole(tmp_path / "a", "")
    assert left.is_dir()


def test_what_others_named_so_stays(tmp_path: Path) -> None:
    """A user's folder without a claim, a link, and a file in a claim's place."""
    mine = tmp_path / ".mine.peirce-0123456789ab"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    (tmp_path / ".link.peirce-0123456789ab").symlink_to(mine)
    for content in ("notes", "[" * 9000, "{}"):
        (tmp_path / LOCK).write_text(content)
        with pytest.raises(FileExistsError, match="Peirce did not write it"):
            Lock(tmp_path / LOCK)
        assert (tmp_path / LOCK).read_text() == content
    before = sorted(tmp_path.rglob("*"))
    write_whole(tmp_path / "a", "")
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "a"])


_FORKED = """
import os, socket, sys
from pathlib import Path
from peirce.files import Lock
here, there = socket.socketpair()
claim = Lock(Path(sys.argv[1]))
if not os.fork():
    here.close()
    there.send(b"runs")
    there.recv(1)
    os._exit(0)
there.close()
assert here.recv(4) == b"runs"
os.close(claim._handle)  # as the system does when a process is killed
Lock(Path(sys.argv[1])).release()
here.close()
os.wait()
"""


def test_a_forked_child_holds_nothing_of_its_parent(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-P", "-c", _FORKED, str(tmp_path / LOCK)], check=True)
    assert not list(tmp_path.iterdir())
