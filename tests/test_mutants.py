"""The tool that counts which slips in a part's source the suite notices."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shared_folder import ROOT

LAB = '''
import peirce
from peirce.parts import UnaryPosition, new_table
from torch import zeros

class Steps(UnaryPosition):
    """u(x) += table[t] * scale: no check knows which table, and one knows that the scale is to be of its dtype."""

    name = "steps"

    def __init__(self, options, dims):
        super().__init__(options, dims)
        self.table = new_table(dims.max_length, dims.unary)

    def unary(self, tokens):
        if tokens.length > 10 ** 9:
            return 0.0
        return self.table(tokens.index) * 2.0

@peirce.hookimpl
def register_positions():
    return [Steps]
'''


@pytest.mark.thorough
def test_a_slip_that_a_check_is_about_is_killed_and_one_that_none_can_know_survives(tmp_path: Path) -> None:
    (tmp_path / "mutated_lab.py").write_text(LAB)
    own = tmp_path / "benchmarks"
    own.mkdir()
    for name in ("mutants", "mutations", "measuring"):
        shutil.copy(ROOT / "benchmarks" / f"{name}.py", own)
    options = "--plugin mutated_lab --checks shapes padding gradients"
    done = subprocess.run(
        [sys.executable, str(own / "mutants.py"), *options.split()],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in (tmp_path / "mutants.jsonl").read_text().splitlines()]
    ended = {row["mutant"].partition("Steps.unary: ")[2]: row for row in found}
    detached = ended[
        "return self.table(tokens.index) * 2.0 -> return _detached(self.table(tokens.index) * 2.0)"
    ]
    assert (detached["outcome"], detached["by"]) == ("killed", "gradients")
    assert ended["self.table(tokens.index) * 2.0 -> self.table(tokens.index) / 2.0"]["outcome"] == "survived"
    row, total, *survivors = json.loads((own / "results" / "mutants.json").read_text())["rows"]
    assert row["part"] == "positions.steps"
    assert {each["outcome"] for each in found} >= {"killed", "survived", "raises"}
    for outcome in ("killed", "survived"):
        assert row[outcome] == total[outcome] == sum(each["outcome"] == outcome for each in found)
    assert len(survivors) == row["survived"]
