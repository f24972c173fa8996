"""The notebooks run, from their first cell to their last."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from shared_folder import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


SAID = {
    "ask-a-knowledge-graph": ("Exact answers: 2 on train, 3 on valid, 4 on test.",),
    "compose-and-train": ("the meal was not awful: ",),
    "read-an-attention-picture": ("f at  4:",),
    "write-an-operator": ("checks failed on 1 part", "checks passed on 1 part"),
}
"""What each of them prints, however short its trainings are."""


@pytest.mark.thorough
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, shared: Path, tmp_path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    script = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    variables = {
        "CLUTRR": str(shared / "data" / "clutrr" / "data_089907f8"),
        "MPLBACKEND": "Agg",
        "STEPS": "3",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": ".",  # Jupyter has the folder of a notebook on its path
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = "".join("".join(out.get("text", ())) for cell in cells for out in cell.get("outputs", ()))
    for said in SAID[path.stem]:
        assert said in done.stdout
        assert said in shown
