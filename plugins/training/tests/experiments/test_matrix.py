"""The engine on a task that is learnt in no time: what is done, what is found again, what fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import toy_tasks
from attrs import evolve, field, frozen
from rich.console import Console
from toy_tasks import Marked, MarkedOptions

from peirce.errors import TaskError
from peirce.registry import Registry
from peirce_training import TrainingOptions, TrainResult, make_task
from peirce_training.experiments import (
    RESULTS,
    Cell,
    ExperimentRequest,
    Matrix,
    PreparedData,
    ResultRow,
    identity,
)


@frozen(kw_only=True)
class LossRow(ResultRow):
    """The last loss of a run."""

    loss: float = field(converter=float)


@frozen(kw_only=True, eq=False)
class Losses(Matrix[LossRow]):
    """One network with some learning rates."""

    rates: tuple[float, ...]
    forgiving: bool = False

    folder = "models"
    row = LossRow

    def cells(self) -> Iterator[Cell]:
        for rate in self.rates:
            training = TrainingOptions(steps=2, lr=rate, threads=1)
            spec, task = toy_tasks.TRANSFORMER, Marked(MarkedOptions())
            run = identity(spec, {}, training, 0)
            yield Cell(label=f"rate {rate}", seed=0, spec=spec, task=task, training=training, run=run)

    def measure(
        self, cell: Cell, trained: TrainResult, data: Any, before: Sequence[LossRow]
    ) -> Iterator[LossRow]:
        yield LossRow(**self.facts(cell, trained), loss=trained.losses[-1])

    def failure_rows(self, cell: Cell, error: TaskError) -> Iterable[LossRow]:
        return () if self.forgiving else super().failure_rows(cell, error)


@pytest.fixture
def losses(tmp_path: Path, parts: Registry) -> Losses:
    return Losses(
        request=ExperimentRequest(data="", directory=tmp_path / "out", command="pytest"),
        registry=parts,
        rates=(1e-3, 1e-2),
    )


def test_a_cell_is_done_once_and_found_in_the_file(losses: Losses) -> None:
    console = Console(record=True, width=200)
    (first,) = evolve(losses, rates=(1e-2,)).run(console)
    rows = losses.run(console)
    assert rows[1] == first
    assert [row.run for row in rows] == [cell.run for cell in losses.cells()]
    assert all(
        (losses.request.directory / "models" / row.run / "weights.safetensors").is_file() for row in rows
    )
    assert losses.run(console) == rows
    text = console.export_text()
    assert text.count("2 steps in") == 5
    assert text.count("done before, run") == 3
    assert (losses.request.directory / RESULTS).read_text().splitlines()[0] == (
        "run,seed,loss,parameters,steps,seconds,spec_digest,commit,evaluated,command"
    )
    assert losses.sources(rows, "run")[-1] == "`pytest`"


def test_a_cell_that_fails_ends_the_matrix_unless_it_is_forgiven(losses: Losses) -> None:
    both = evolve(losses, rates=(1e-2, 1e38))
    with pytest.raises(TaskError, match=r"train\.lr"):
        both.run(Console(quiet=True))
    assert len(losses.existing_rows([])) == 1


def test_what_a_cell_is_known_by() -> None:
    training = TrainingOptions(steps=2)
    name = identity(toy_tasks.TRANSFORMER, {"length": 6}, training, 1)
    assert name.startswith(f"{toy_tasks.TRANSFORMER.name}-1-")
    assert name == identity(toy_tasks.TRANSFORMER, {"length": 6}, evolve(training, threads=3), 1)
    given: list[Any] = [toy_tasks.TRANSFORMER, {"length": 6}, training, 1]
    changes = enumerate([toy_tasks.FOLNET, {"length": 7}, evolve(training, lr=0.5), 2])
    others = {identity(*given[:i], change, *given[i + 1 :]) for i, change in changes} | {
        identity(*given, "vectors")
    }
    assert len(others | {name}) == 6


def test_data_are_read_once_for_all_that_read_the_same() -> None:
    prepared = PreparedData()
    task = Marked(MarkedOptions())
    data = prepared.get(task)
    assert prepared.get(Marked(MarkedOptions())) is data
    assert prepared.get(Marked(MarkedOptions(length=4))) is not data
    assert prepared.get(task) is not data


def test_a_task_that_shares_data_knows_what_the_one_that_read_them_learned(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("said,kind\n" + "yes it is,good\nno it is not,bad\n" * 20)
    options = {"data": str(tmp_path / "own.csv"), "text": "said", "label": "kind", "vocabulary": 60}
    tasks = [make_task("classify", {**options, "batch_size": size}) for size in (2, 4)]
    prepared = PreparedData()
    first, second = (prepared.get(task) for task in tasks)
    assert first is second
    assert tasks[1].assets(second) == tasks[0].assets(first)
    assert tasks[1].options.batch_size == 4
