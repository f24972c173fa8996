"""A save that is killed leaves the old model or the new one, whole; so do saves that go on together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "tests" / "support" / "killed_saves.py"


def test_a_killed_save_leaves_a_whole_model(tmp_path: Path) -> None:
    counts = _run(tmp_path, "at")
    assert counts["old"] > 10
    assert counts["new"] > 5


def test_saves_that_go_on_together_leave_the_last_one_and_readers_get_whole_ones(tmp_path: Path) -> None:
    assert sum(_run(tmp_path, "together").values()) > 5


def _run(folder: Path, when: str) -> dict[str, int]:
    command = [sys.executable, str(SCRIPT), str(folder), when]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=900)
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts
