"""CLUTRR and FOLIO as experiments: what is trained once and found again, what is shown, and what was kept before."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from kinship import write_folder
from rich.console import Console
from shared_folder import ROOT

from peirce_papers.text.clutrr import CLUTRR, ClutrrNetworks, StoryRow
from peirce_papers.text.folio import FOLIO, ProblemRow
from peirce_papers.text.networks import ARMS
from peirce_text.clutrr.task import Clutrr, ClutrrOptions
from peirce_text.folio.problems import LABELS
from peirce_training.experiments import RESULTS, ExperimentRequest, ResultRow, read_rows

TINY = {"model.dims.layers": 1, "model.dims.unary": 16, "model.dims.heads": 2, "task.vocabulary": 120}
TINY |= {"train.steps": 3, "train.threads": 1}
FACTS = "parameters,steps,seconds,last_loss,spec_digest,commit,evaluated,command"


def write_problems(path: Path, labels: list[str]) -> None:
    says = {"True": "Tom sleeps.", "False": "Tom does not sleep.", "Unknown": "Tom is old."}
    rows = [
        {"premises": ["All cats sleep.", "Tom is a cat."], "conclusion": says[label], "label": label}
        for label in labels
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def folio(tmp_path: Path) -> ExperimentRequest:
    folder = tmp_path / "data"
    folder.mkdir()
    write_problems(folder / "train.jsonl", ["True", "True", "False", "Unknown"])
    write_problems(folder / "validation.jsonl", ["True", "False", "Unknown", "Unknown"])
    settings = {**TINY, "task.batch_size": 2}
    return ExperimentRequest(
        data=str(folder), directory=tmp_path / "out", rows=("BERT",), seeds=(0, 1), settings=settings
    )


def test_each_label_of_each_split_has_a_row_and_every_run_is_done_once(folio: ExperimentRequest) -> None:
    console = Console(width=140, record=True)
    networks = FOLIO.matrix_for(folio)
    rows = networks.run(console)
    assert [(row.seed, row.split, row.label) for row in rows] == [
        (seed, split, label) for seed in (0, 1) for split in ("train", "valid") for label in LABELS
    ]
    assert [row.problems for row in rows[:6]] == [2, 1, 1, 1, 1, 2]
    assert all(0 <= row.right <= row.problems and row.commit and row.steps == 3 for row in rows)
    path = networks.request.directory / RESULTS
    with path.open(newline="") as file:
        columns = ["run", "seed", "arm", "split", "label", "problems", "accuracy"]
        assert {*(csv.DictReader(file).fieldnames or ())} == {*columns, "right", *FACTS.split(",")}
    whole = path.read_text()
    assert networks.run(console) == rows
    assert path.read_text() == whole
    assert console.export_text().count("done before") == 2


@pytest.fixture
def clutrr(tmp_path: Path) -> ExperimentRequest:
    folder = write_folder(tmp_path / "stories", 40)
    settings = {
        **TINY,
        "task.people": "tokens",
        "task.batch_size": 8,
        "task.valid": 0.2,
        "task.text": "story",
    }
    return ExperimentRequest(
        data=str(folder), directory=tmp_path / "out", seeds=(0,), settings=settings, command="here"
    )


def test_networks_are_tested_by_number_of_facts(clutrr: ExperimentRequest) -> None:
    networks = CLUTRR.matrix_for(clutrr)
    rows = networks.run(Console(quiet=True))
    assert [(row.arm, row.split, row.hops) for row in rows] == [
        (arm.name, split, hops)
        for arm in ARMS
        for split, hops in (("valid", 2), ("valid", 3), ("test", 2), ("test", 4))
    ]
    for row in rows:
        assert row.stories == {("test", 2): 6, ("test", 4): 8}.get((row.split, row.hops), row.stories)
        assert 0 <= row.right <= row.stories
        assert (row.seed, row.steps, row.train_hops, row.command) == (0, 3, "2 3", "here")
    files = networks.table(rows).write(networks.request.directory).files
    assert [file.name for file in files] == ["accuracy.md", "accuracy.csv", "accuracy.png"]


def test_the_networks_have_one_size(clutrr: ExperimentRequest, tmp_path: Path) -> None:
    few = {key: value for key, value in clutrr.settings.items() if not key.startswith("model.")}
    real = CLUTRR.matrix_for(ExperimentRequest(data=clutrr.data, directory=tmp_path, settings=few))
    given = real.task.overrides(real.data)
    specs = real.specs(given)
    counts = [real.parameters(spec) for spec in specs.values()]
    assert len(counts) == 3
    assert all(abs(count / counts[0] - 1) < 0.005 for count in counts)
    assert specs["FOLNet (j.a)"].operators.layer == "j.a"
    # one network alone has the size that it has among the others
    alone = ExperimentRequest(data=clutrr.data, directory=tmp_path, settings=few, rows=("BERT",))
    assert CLUTRR.matrix_for(alone).specs(given) == {"BERT": specs["BERT"]}


def test_the_table_and_the_commonest_relation(clutrr: ExperimentRequest, tmp_path: Path) -> None:
    def row(arm: str, seed: int, hops: int, right: int, split: str = "test") -> StoryRow:
        return StoryRow(
            run=f"{arm}-{seed}", arm=arm, seed=seed, train_hops="2 3", split=split, hops=hops, stories=10,
            right=right, parameters=5, steps=3, seconds=1.5, last_loss=0.1, commit="abc", command="python, -m x",
        )  # fmt: skip

    networks = CLUTRR.matrix_for(clutrr)
    table = networks.table(
        [row("A", 0, 2, 9), row("A", 1, 2, 7), row("B", 0, 2, 5), row("A", 0, 2, 1, "valid")]
    )
    assert table.columns == ("2", "4")
    shares = {label: [figure.values for figure in figures] for label, figures in table.figures.items()}
    assert shares == {"A": [(90, 70), ()], "B": [(50,), ()], ClutrrNetworks.constant: [(50,), (50,)]}
    task = Clutrr(ClutrrOptions(folder=str(write_folder(tmp_path / "41", 41)), valid=0.0, vocabulary=120))
    # the first of 41 stories decides: "son" is told once more often, and half of the test stories say it
    found = {column: share for column, (_, share) in networks.baseline(task.prepare()).items()}
    assert found == {"2": 0.5, "4": 0.5}


def test_the_runs_that_were_kept_are_those_that_are_asked_for_today(shared: Path) -> None:
    data = str(shared / "data" / "folio")
    request = ExperimentRequest(data=data, directory=Path("unused"), settings={"train.steps": 126})
    rows = read_rows(ROOT / "benchmarks" / "results" / "folio.csv", ProblemRow)
    assert {cell.run for cell in FOLIO.matrix_for(request).cells()} == {row.run for row in rows}


@pytest.mark.parametrize(
    ("name", "row", "runs"),
    [("clutrr-facts", StoryRow, 11), ("clutrr-story", StoryRow, 1), ("folio", ProblemRow, 9)],
)
def test_results_that_were_kept_are_read(name: str, row: type[ResultRow], runs: int) -> None:
    rows = read_rows(ROOT / "benchmarks" / "results" / f"{name}.csv", row)
    assert len({one.run for one in rows}) == runs
