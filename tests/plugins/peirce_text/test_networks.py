"""CLUTRR and FOLIO as experiments: by `peirce experiments run`, by their own modules, and what was kept before."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from peirce.errors import TaskError
from peirce.experiments import ResultRow, read_rows
from peirce.experiments.cli import app
from peirce.model import ExperimentRequest
from peirce_text.clutrr.experiment import StoryRow
from peirce_text.folio.experiment import FOLIO, ProblemRow
from shared_folder import ROOT
from typer.testing import CliRunner

TINY = [
    word
    for setting in ("dims.layers=1", "dims.unary=16", "dims.heads=2")
    for word in ("--set", f"model.{setting}")
]


@pytest.fixture
def folio(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train", "validation"):
        rows = [
            {"premises": ["All cats sleep.", "Tom is a cat."], "conclusion": conclusion, "label": label}
            for label, conclusion in (
                ("True", "Tom sleeps."),
                ("False", "Tom wakes."),
                ("Unknown", "Tom is old."),
            )
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_an_experiment_is_run_by_name_and_found_again_by_its_module(folio: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    common = ["--data", str(folio), "-o", str(out), "--seeds", "0", *TINY, "--set", "task.vocabulary=80"]
    own = [
        "--row",
        "BERT",
        "--set",
        "train.steps=2",
        "--set",
        "train.threads=1",
        "--set",
        "task.batch_size=2",
    ]
    done = CliRunner().invoke(app, ["run", "folio", *common, *own, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {figure["row"] for figure in found["figures"]} == {"BERT", "the commonest label"}
    assert all(Path(file).is_file() for file in found["files"])
    kept = (out / "results.csv").read_text()
    (run,) = {row["run"] for row in csv.DictReader(kept.splitlines())}

    flags = ["--arm", "BERT", "--steps=2", "--threads", "1", "--batch", "2"]
    module = [sys.executable, "-m", "peirce_text.folio.experiment", *common, *flags, "--json"]
    again = subprocess.run(module, capture_output=True, text=True, timeout=600, check=False)
    assert again.returncode == 0, again.stderr
    assert f"done before, run {run}" in again.stderr
    assert json.loads(again.stdout)["figures"] == found["figures"]
    assert (out / "results.csv").read_text() == kept


def test_an_unknown_network_lists_those_there_are(folio: Path) -> None:
    done = CliRunner().invoke(app, ["run", "folio", "--data", str(folio), "--row", "BERT, 4 times"])
    assert isinstance(done.exception, TaskError)
    assert "Did you mean 'BERT, 4 times the steps'" in str(done.exception)


def test_the_runs_that_were_kept_are_those_that_are_asked_for_today(shared: Path) -> None:
    data = str(shared / "data" / "folio")
    request = ExperimentRequest(data=data, directory=Path("unused"), settings={"train.steps": 126})
    rows = read_rows(ROOT / "benchmarks" / "results" / "folio.csv", ProblemRow)
    assert {cell.run for cell in FOLIO.asked(request).cells()} == {row.run for row in rows}


@pytest.mark.parametrize(
    ("name", "row", "runs"),
    [
        ("clutrr-facts", StoryRow, 10),
        ("clutrr-story", StoryRow, 1),
        ("folio", ProblemRow, 9),
    ],
)
def test_results_that_were_kept_are_read(name: str, row: type[ResultRow], runs: int) -> None:
    rows = read_rows(ROOT / "benchmarks" / "results" / f"{name}.csv", row)
    assert len({one.run for one in rows}) == runs
