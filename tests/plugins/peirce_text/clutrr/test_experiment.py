from __future__ import annotations

import csv
from pathlib import Path

import pytest
from attrs import evolve
from kinship import write_folder
from peirce.experiments import RESULTS, Plan, read_rows
from peirce.experiments.comparison import ARMS, FACTS, sized
from peirce.registry import Registry
from peirce.training import TrainingOptions
from peirce_text.clutrr.experiment import COLUMNS, FIGURE, Result, commonest, draw, run, table
from peirce_text.clutrr.task import Clutrr, ClutrrOptions
from rich.console import Console

TINY = {"layers": 1, "unary": 16, "heads": 2}
DIMS = {
    "folnet": {**TINY, "binary": 4, "head_size": 4, "feedforward_unary": 32},
    "bert": {**TINY, "feedforward": 32},
}


@pytest.fixture
def plan(tmp_path: Path, registry: Registry) -> Plan:
    folder = write_folder(tmp_path / "data", 40)
    arms = tuple(
        evolve(arm, changes={**arm.changes, "model.dims": DIMS[arm.spec.partition("-")[0]]}) for arm in ARMS
    )
    return Plan(
        directory=tmp_path / "out",
        task=Clutrr(
            ClutrrOptions(folder=str(folder), people="tokens", vocabulary=120, batch_size=8, valid=0.2)
        ),
        training=TrainingOptions(steps=3, lr=1e-2, threads=1),
        arms=arms,
        like=arms[0],
        seeds=(0, 1),
        command="python -m experiment",
        registry=registry,
    )


def test_every_run_is_kept_once_and_what_is_missing_is_done(plan: Plan) -> None:
    console = Console(width=140, record=True)
    rows = run(evolve(plan, seeds=(0,)), console)
    path = plan.directory / RESULTS
    first = path.read_text()
    assert [(row.arm, row.split, row.hops) for row in rows] == [
        (arm.name, split, hops)
        for arm in ARMS
        for split, hops in (("valid", 2), ("valid", 3), ("test", 2), ("test", 4))
    ]
    for row in rows:
        assert row.stories == {("test", 2): 6, ("test", 4): 8}.get((row.split, row.hops), row.stories)
        assert 0 <= row.right <= row.stories
        assert (row.seed, row.steps, row.train_hops, row.command) == (0, 3, "2 3", "python -m experiment")
        assert row.commit
    assert (plan.directory / FIGURE).read_bytes().startswith(b"\x89PNG")
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == [*COLUMNS, *FACTS]
    assert [float(line["accuracy"]) for line in table] == pytest.approx([r.accuracy for r in rows], abs=1e-4)

    both = run(plan, console)
    assert path.read_text().startswith(first)
    assert len(both) == 2 * len(rows)
    text = console.export_text()
    assert text.count("done before") == 3
    whole = path.read_text()
    assert run(plan, console) == both
    assert path.read_text() == whole
    assert console.export_text().count("done before") == 6
    other = run(
        evolve(plan, seeds=(0,), arms=plan.arms[2:], training=evolve(plan.training, steps=4)), console
    )
    assert {row.steps for row in other} == {4}
    assert len(read_rows(path, Result)) == len(both) + len(other)


def test_the_networks_have_one_size(plan: Plan) -> None:
    data = plan.task.prepare()
    real = evolve(plan, arms=ARMS, like=ARMS[0])
    console = Console(record=True, width=100)
    specs = sized(real, data, console)
    counts = [int(line.split()[-2].replace(",", "")) for line in console.export_text().splitlines()]
    assert len(counts) == 3
    assert all(abs(count / counts[0] - 1) < 0.005 for count in counts)
    assert specs["FOLNet (j.a)"].operators.layer == "j.a"
    # one network alone has the size that it has among the others
    assert sized(evolve(real, arms=ARMS[2:]), data, console)["BERT"] == specs["BERT"]


def _row(arm: str, seed: int, hops: int, right: int, split: str = "test") -> Result:
    return Result(
        run=f"{arm}-{seed}", arm=arm, seed=seed, train_hops="2 3", split=split, hops=hops, stories=10, right=right,
        parameters=5, steps=3, seconds=1.5, last_loss=0.1, commit="abc", command="python, -m x",
    )  # fmt: skip


def test_the_table_and_the_figure(tmp_path: Path) -> None:
    rows = [_row("A", 0, 2, 9), _row("A", 1, 2, 7), _row("B", 0, 2, 5), _row("A", 0, 2, 1, "valid")]
    console = Console(width=100, record=True)
    console.print(table(rows))
    text = console.export_text()
    assert "80 (70-90)" in text
    assert "50 (50-50)" in text
    draw(tmp_path / FIGURE, rows, ClutrrOptions(), {2: 0.1, 3: 0.2})
    assert (tmp_path / FIGURE).stat().st_size > 10_000


def test_the_commonest_relation(tmp_path: Path) -> None:
    task = Clutrr(ClutrrOptions(folder=str(write_folder(tmp_path / "data", 41)), valid=0.0, vocabulary=120))
    # the first of 41 stories decides: "son" is told once more often, and half of the test stories say it
    assert commonest(task.prepare()) == {2: 0.5, 4: 0.5}
