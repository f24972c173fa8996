from __future__ import annotations

import csv
from pathlib import Path

import pytest
from attrs import evolve
from kinship import write_folder
from peirce.experiments import RESULTS, read_rows
from peirce.registry import Registry
from peirce.training import TrainingOptions
from peirce_text.clutrr.experiment import ClutrrNetworks, StoryRow
from peirce_text.clutrr.task import Clutrr, ClutrrOptions
from peirce_text.networks import ARMS
from rich.console import Console

TINY = {"layers": 1, "unary": 16, "heads": 2}
DIMS = {
    "folnet": {**TINY, "binary": 4, "head_size": 4, "feedforward_unary": 32},
    "bert": {**TINY, "feedforward": 32},
}


@pytest.fixture
def networks(tmp_path: Path, registry: Registry) -> ClutrrNetworks:
    folder = write_folder(tmp_path / "data", 40)
    arms = tuple(
        evolve(arm, changes={**arm.changes, "model.dims": DIMS[arm.spec.partition("-")[0]]}) for arm in ARMS
    )
    return ClutrrNetworks(
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


def test_every_run_is_kept_once_and_what_is_missing_is_done(networks: ClutrrNetworks) -> None:
    console = Console(width=140, record=True)
    rows = evolve(networks, seeds=(0,)).run(console)
    path = networks.directory / RESULTS
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
    files = networks.table(rows).write(networks.directory).files
    assert [file.name for file in files] == ["accuracy.md", "accuracy.csv", "accuracy.png"]
    assert files[2].read_bytes().startswith(b"\x89PNG")
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    assert ",".join(table[0]) == (
        "run,arm,seed,train_hops,split,hops,stories,right,accuracy,parameters,steps,seconds,last_loss,spec_digest,commit,evaluated,command"
    )
    assert [float(line["accuracy"]) for line in table] == pytest.approx([r.accuracy for r in rows], abs=1e-4)

    both = networks.run(console)
    assert path.read_text().startswith(first)
    assert len(both) == 2 * len(rows)
    text = console.export_text()
    assert text.count("done before") == 3
    whole = path.read_text()
    assert networks.run(console) == both
    assert path.read_text() == whole
    assert console.export_text().count("done before") == 6
    training = evolve(networks.training, steps=4)
    other = evolve(networks, seeds=(0,), arms=networks.arms[2:], training=training).run(console)
    assert {row.steps for row in other} == {4}
    assert len(read_rows(path, StoryRow)) == len(both) + len(other)


def test_the_networks_have_one_size(networks: ClutrrNetworks) -> None:
    real = evolve(networks, arms=ARMS, like=ARMS[0])
    specs = real.sized()
    counts = [real.parameters(spec) for spec in specs.values()]
    assert len(counts) == 3
    assert all(abs(count / counts[0] - 1) < 0.005 for count in counts)
    assert specs["FOLNet (j.a)"].operators.layer == "j.a"
    # one network alone has the size that it has among the others
    assert evolve(real, arms=ARMS[2:]).sized()["BERT"] == specs["BERT"]


def _row(arm: str, seed: int, hops: int, right: int, split: str = "test") -> StoryRow:
    return StoryRow(
        run=f"{arm}-{seed}", arm=arm, seed=seed, train_hops="2 3", split=split, hops=hops, stories=10, right=right,
        parameters=5, steps=3, seconds=1.5, last_loss=0.1, commit="abc", command="python, -m x",
    )  # fmt: skip


def test_the_table_and_the_figure(networks: ClutrrNetworks) -> None:
    rows = [_row("A", 0, 2, 9), _row("A", 1, 2, 7), _row("B", 0, 2, 5), _row("A", 0, 2, 1, "valid")]
    console = Console(width=100, record=True)
    table = networks.table(rows)
    assert table.columns == ("2", "4")
    shares = {label: [figure.values for figure in figures] for label, figures in table.figures.items()}
    assert shares == {"A": [(90, 70), ()], "B": [(50,), ()], networks.constant: [(50,), (50,)]}
    console.print(table.shown())
    assert "80 (70 to 90)" in console.export_text()
    assert len(table.picture()) > 10_000


def test_the_commonest_relation(networks: ClutrrNetworks, tmp_path: Path) -> None:
    task = Clutrr(ClutrrOptions(folder=str(write_folder(tmp_path / "41", 41)), valid=0.0, vocabulary=120))
    # the first of 41 stories decides: "son" is told once more often, and half of the test stories say it
    assert networks.baseline(task.prepare()) == {"2": ("test", 2, 0.5), "4": ("test", 4, 0.5)}
