from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from attrs import evolve
from peirce.experiments import RESULTS
from peirce.registry import Registry
from peirce.training import TrainingOptions
from peirce_text.folio.experiment import FolioNetworks, ProblemRow
from peirce_text.folio.problems import LABELS
from peirce_text.folio.task import Folio, FolioOptions
from peirce_text.networks import ARMS
from rich.console import Console


def write_problems(path: Path, labels: list[str]) -> None:
    says = {"True": "Tom sleeps.", "False": "Tom does not sleep.", "Unknown": "Tom is old."}
    rows = [
        {"premises": ["All cats sleep.", "Tom is a cat."], "conclusion": says[label], "label": label}
        for label in labels
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def networks(tmp_path: Path, registry: Registry) -> FolioNetworks:
    folder = tmp_path / "data"
    folder.mkdir()
    write_problems(folder / "train.jsonl", ["True", "True", "False", "Unknown"])
    write_problems(folder / "validation.jsonl", ["True", "False", "Unknown", "Unknown"])
    tiny = {"layers": 1, "unary": 16, "heads": 2, "feedforward": 32}
    return FolioNetworks(
        directory=tmp_path / "out",
        task=Folio(FolioOptions(folder=str(folder), vocabulary=80, batch_size=2)),
        training=TrainingOptions(steps=3, lr=1e-2, threads=1),
        arms=(evolve(ARMS[2], changes={**ARMS[2].changes, "model.dims": tiny}),),
        like=evolve(ARMS[2], changes={**ARMS[2].changes, "model.dims": tiny}),
        seeds=(0, 1),
        command="python -m experiment",
        registry=registry,
    )


def test_each_label_of_each_split_has_a_row(networks: FolioNetworks) -> None:
    console = Console(width=140, record=True)
    rows = networks.run(console)
    assert [(row.seed, row.split, row.label) for row in rows] == [
        (seed, split, label) for seed in (0, 1) for split in ("train", "valid") for label in LABELS
    ]
    assert [row.problems for row in rows[:6]] == [2, 1, 1, 1, 1, 2]
    assert all(0 <= row.right <= row.problems and row.commit and row.steps == 3 for row in rows)
    path = networks.directory / RESULTS
    with path.open(newline="") as file:
        assert ",".join(csv.DictReader(file).fieldnames or ()) == (
            "run,arm,seed,split,label,problems,right,accuracy,parameters,steps,seconds,last_loss,spec_digest,commit,evaluated,command"
        )
    whole = path.read_text()
    assert networks.run(console) == rows
    assert path.read_text() == whole
    assert console.export_text().count("done before") == 2


def test_the_table_joins_the_labels_of_a_run(networks: FolioNetworks) -> None:
    def row(arm: str, seed: int, label: str, problems: int, right: int, split: str = "valid") -> ProblemRow:
        return ProblemRow(
            run=f"{arm}-{seed}", arm=arm, seed=seed, split=split, label=label, problems=problems, right=right,
            parameters=5, steps=3, seconds=1.5, last_loss=0.1, commit="abc", command="python -m x",
        )  # fmt: skip

    rows = [row("A", 0, "True", 3, 3), row("A", 0, "False", 7, 1), row("A", 1, "True", 10, 6)]
    rows += [row("A", seed, "True", 4, 3, "train") for seed in (0, 1)]
    console = Console(width=100, record=True)
    table = networks.table(rows)
    shares = {label: [figure.values for figure in figures] for label, figures in table.figures.items()}
    assert shares == {"A": [(75, 75), (40, 60)], networks.constant: [(50,), (25,)]}
    console.print(table.shown())
    text = console.export_text()
    assert "50 (40 to 60)" in text
    assert "75 (75 to 75)" in text
