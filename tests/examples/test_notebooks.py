"""The notebooks run, from their first cell to their last; those that are made of pages are what their pages say."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shared_folder import ROOT

NOTEBOOKS = ROOT / "examples" / "notebooks"
SAID = {
    "ask-a-knowledge-graph": ("Exact answers: 2 on train, 3 on valid, 4 on test.",),
    "read-an-attention-picture": ("f at  4:",),
}
"""What those with outputs print, however short their trainings are."""
OF_PAGES = {
    "own-table": "saved in kinds",
    "own-encoder": "complaint",
    "own-operator": "19 checks passed on 1 part",
}
"""What those that are made of pages print."""


@pytest.fixture(scope="module")
def writer() -> Iterator[dict[str, Any]]:
    """The script that makes notebooks of pages, as its names."""
    sys.path.insert(0, str(ROOT / "docs" / "writer"))
    yield runpy.run_path(str(ROOT / "docs" / "writer" / "notebooks.py"))
    sys.path.remove(str(ROOT / "docs" / "writer"))


def test_every_notebook_is_tried() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == {*SAID, *OF_PAGES}


@pytest.mark.parametrize("name", OF_PAGES)
def test_a_notebook_of_a_page_is_what_the_page_says(name: str, writer: dict[str, Any]) -> None:
    stored = (NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
    assert stored == writer["notebook"](name), "the page has changed; python docs/writer/notebooks.py"


@pytest.mark.thorough
@pytest.mark.parametrize("name", SAID)
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    script = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    variables = {"MPLBACKEND": "Agg", "STEPS": "3", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = "".join("".join(out.get("text", ())) for cell in cells for out in cell.get("outputs", ()))
    for said in SAID[name]:
        assert said in done.stdout
        assert said in shown


@pytest.mark.thorough
@pytest.mark.parametrize("name", OF_PAGES)
def test_jupyter_runs_a_notebook_of_a_page(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
    printed = "".join(out.get("text", "") for cell in notebook.cells for out in cell.get("outputs", ()))
    assert OF_PAGES[name] in printed
