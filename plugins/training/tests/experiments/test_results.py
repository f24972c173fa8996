from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from attrs import field, frozen

from peirce.errors import TaskError
from peirce_training.experiments import commit, read_rows, results, write_rows


@frozen
class Measured:
    run: str
    seed: int = field(converter=int)
    right: int = field(converter=int)
    seconds: float = field(converter=float)

    @property
    def share(self) -> float:
        return self.right / 4


COLUMNS = ("run", "seed", "share", "right", "seconds")


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    rows = [Measured("a", 0, 1, 1.5), Measured("b, longer", 1, 3, 0.25)]
    assert read_rows(path, Measured) == []
    write_rows(path, rows, COLUMNS)
    assert read_rows(path, Measured) == rows
    assert path.read_text().splitlines()[:2] == [",".join(COLUMNS), "a,0,0.25,1,1.5"]


@pytest.mark.parametrize("text", ["run,seed\nx,1\n", "run,seed,right,seconds\nx,one,1,2\n"])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text(text)
    with pytest.raises(TaskError, match=r"results\.csv is not a file of results.*move it away"):
        read_rows(path, Measured)
    assert path.read_text() == text


def test_the_commit_and_whether_files_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    package.mkdir()
    module = package / "results.py"
    module.write_text("first\n")
    monkeypatch.setattr(results, "__file__", str(module))
    assert commit().startswith("peirce ")

    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    assert re.fullmatch(r"[0-9a-f]{7,}", commit())
    module.write_text("second\n")
    assert re.fullmatch(r"[0-9a-f]{7,}\+", commit())
