"""`peirce experiments run tpru/table1`: recurrences that decide entailment, plain and with attention flow, by file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import evolve, field, frozen

from peirce.errors import TaskError
from peirce_training.experiments import (
    AccuracyRow,
    Cell,
    FigureTable,
    Scale,
    SeededMatrix,
    TableExperiment,
    accuracies,
)

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce_tpru.entailment.task import EntailmentData
    from peirce_training import TrainingOptions, TrainResult

COLUMNS: Mapping[str, str] = {
    "valid": "validate", "easy": "test_easy", "hard": "test_hard", "big": "test_big", "massive": "test_massive",
    "exam": "test_exam",
}  # fmt: skip
"""The columns of the paper's table, and their files."""
ROLES = (8, 32, 128, 512)
PLAIN, BIDAF = "pair-tpru", "pair-bidaf"
PAPER: Mapping[str, tuple[float, ...]] = {
    "LSTM": (71.7, 71.8, 64.1, 64.2, 53.7, 68.3),
    "GRU": (75.1, 77.1, 63.7, 63.8, 54.4, 73.7),
    "TPRU, 8 roles": (66.8, 67.2, 59.3, 60.9, 51.9, 67.0),
    "TPRU, 32 roles": (73.7, 73.7, 62.7, 62.8, 53.0, 76.7),
    "TPRU, 128 roles": (75.9, 76.0, 64.9, 64.0, 53.8, 75.7),
    "TPRU, 512 roles": (76.8, 76.8, 64.4, 64.6, 54.6, 75.3),
    "LSTM, BiDAF": (88.5, 88.7, 74.5, 73.8, 66.8, 80.0),
    "GRU, BiDAF": (87.9, 88.3, 72.5, 71.3, 66.1, 78.0),
    "TPRU, 8 roles, BiDAF": (86.2, 87.1, 69.1, 68.2, 62.5, 74.3),
    "TPRU, 32 roles, BiDAF": (88.4, 88.4, 71.1, 70.1, 64.9, 77.0),
    "TPRU, 128 roles, BiDAF": (88.5, 88.6, 71.5, 69.8, 64.1, 80.0),
    "TPRU, 512 roles, BiDAF": (88.6, 89.2, 72.6, 71.2, 64.4, 80.0),
}
"""Table 1 of the paper, dim 64."""
UNPUBLISHED: Mapping[str, str] = {
    "transformer": "pair-transformer",
    "transformer, brackets": "pair-brackets",
    "FOLNet": "pair-folnet",
}
"""Rows that nobody has published, and their specs: encoders that read each text by itself, the second with relations
from the parse, and relations between all tokens."""


@frozen(kw_only=True)
class RatedScale(Scale):
    """A scale at which some rows do not learn at the learning rate of the others; `rates` has theirs."""

    rates: Mapping[str, float] = field(factory=dict)


SCALES: Mapping[str, RatedScale] = {
    "small": RatedScale(
        about="12,000 steps of 32 pairs, variables in their order, texts pooled and compared as published",
        settings={
            "train.steps": 12_000,
            "train.lr": 3e-3,
            "train.schedule": "linear",
            "train.warmup_ratio": 0.04,
            "task.batch_size": 32,
            "task.names": "ordered",
            "model.heads.0.pool": "max",
            "model.heads.0.join": "compared",
        },
        # At 3e-3 the loss of the transformer with brackets fell to 0.683 and rose again to ln 2.
        rates=dict.fromkeys(UNPUBLISHED, 5e-4),
    ),
    "paper": RatedScale(
        about="90 epochs, the learning rate divided by 10 twice, the best model by the validation file",
        settings={
            "train.lr": 1e-3,
            "train.epochs": 90,
            "train.schedule": "thirds",
            "train.evaluate_every": 1563,
            "train.monitor": "accuracy",
            "train.patience": 90,
        },
    ),
}
POINTS = 12
"""A learning curve has so many points."""


@frozen(kw_only=True)
class EntailmentRow(AccuracyRow):
    """How a run does on one file.

    Args:
        curve: the mean training loss of each of `POINTS` equal parts of the steps, with spaces between.
    """

    label: str
    file: str
    pairs: int = field(converter=int)
    curve: str = ""

    count = "pairs"
    groups = ("file",)


class Table1(SeededMatrix[EntailmentRow]):
    """The rows of the table, with several seeds each."""

    row = EntailmentRow
    learns = "entailment"
    common: ClassVar[Mapping[str, Any]] = {**SeededMatrix.common, "train.weight_decay": 0.0}
    aside: ClassVar[Mapping[str, Any]] = {"folder": "", "pairs": ""}

    def task_identity(self, name: str, task: AnyTask) -> Mapping[str, Any]:
        """The task's options.

        Raises:
            TaskError: there is nothing to train on, or nothing to evaluate on.
        """
        data: EntailmentData = self.data
        data.of("train")
        if not {*COLUMNS.values()} & {*data.files}:
            raise TaskError(
                f"{data.folder} has no file to evaluate on, such as validate.txt or test_easy.txt; put a published "
                "one there, or keep some lines of train.txt as validate.txt"
            )
        return super().task_identity(name, task)

    def spec_of(self, label: str) -> tuple[str, Mapping[str, Any]]:
        """See `spec_of`."""
        return spec_of(label)

    def training_of(self, label: str) -> TrainingOptions:
        """With its own rate, where a row has one and the request has none."""
        rates = {} if "train.lr" in self.request.settings else self.scale.rates
        return evolve(self.training, lr=rates.get(label, self.training.lr))

    def measure(
        self, cell: Cell, trained: TrainResult, data: EntailmentData, before: Sequence[EntailmentRow]
    ) -> Iterator[EntailmentRow]:
        """A row for each file of evaluation."""
        means = (np.mean(part) for part in np.array_split(trained.losses, POINTS) if len(part))
        common = {**self.facts(cell, trained), "curve": " ".join(f"{mean:.4f}" for mean in means)}
        for file in COLUMNS.values():
            if file in data.files:
                right = self.task.right(trained.model, data.files[file])
                yield EntailmentRow(**common, file=file, pairs=len(right), right=int(right.sum()))

    def tables(self, rows: Sequence[EntailmentRow]) -> Sequence[FigureTable]:
        """The accuracies, and the learning curves."""
        return self.table(rows), self.curves(rows)

    def table(self, rows: Sequence[EntailmentRow]) -> FigureTable:
        """Accuracy by row and file, beside the paper's, with the heuristics below."""
        from peirce_tpru.entailment.files import HEURISTICS

        files = self.data.files

        def accuracy(label: str, column: str) -> tuple[float, ...]:
            file = COLUMNS[column]
            if label not in HEURISTICS:
                return accuracies(rows, label=label, file=file)
            if file not in files:
                return ()
            guesses = np.array(files[file].notes)[:, HEURISTICS.index(label)]
            return (100 * float((guesses == files[file].labels).mean()),)

        return self.comparison_table(
            rows,
            COLUMNS,
            accuracy,
            PAPER,
            labels=HEURISTICS,
            name="table1",
            title="TPRU, Table 1: logical entailment",
            about=f"{len(files['train']):,} pairs for training.",
            facts=[
                f"Accuracy in %, {self.over_seeds}.",
                "h1 to h3 are heuristics: B has no more connectives, no other variables, no other literals than A.",
            ],
            published="the published training pairs",
            unit="accuracy (%)",
            constant=HEURISTICS,
        )

    def curves(self, rows: Sequence[EntailmentRow]) -> FigureTable:
        """The training loss by row and step, of the rows that were trained as long as the longest."""
        steps = max(row.steps for row in rows)
        columns = [str(round((i + 1) * steps / POINTS)) for i in range(POINTS)]
        longest = [row for row in rows if row.steps == steps]
        found = {(row.label, row.seed): row.curve.split() for row in longest}

        def loss(label: str, column: str) -> list[float]:
            i = columns.index(column)
            return [float(curve[i]) for (name, _), curve in found.items() if name == label and i < len(curve)]

        return self.comparison_table(
            longest,
            columns,
            loss,
            {},
            name="figure1",
            title="TPRU, Figure 1: learning curves",
            about=f"Training loss, mean of {steps // POINTS:,} steps.",
            unit="training loss",
            across="step",
            digits=3,
        )


def spec_of(label: str) -> tuple[str, dict[str, Any]]:
    """The ready spec of a row, and what it changes."""
    if label in UNPUBLISHED:
        return UNPUBLISHED[label], {}
    return (BIDAF if label.endswith("BiDAF") else PLAIN), unit_changes(label)


def unit_changes(label: str) -> dict[str, Any]:
    """What a row such as `TPRU, 8 roles, BiDAF` changes of its ready spec: the name, and the recurrent unit."""
    unit, *rest = label.split(", ")
    changes: dict[str, Any] = {"model.name": "-".join(label.lower().replace(",", "").split())}
    if unit == "TPRU":
        return {**changes, "model.operators.options.tpru.roles": int(rest[0].split()[0])}
    return {**changes, "model.operators": {"layer": unit.lower()}}


TABLE1 = TableExperiment(
    name="tpru/table1",
    title="TPRU, Table 1: logical entailment by LSTM, GRU and TPRU, plain and BiDAF",
    rows=tuple(PAPER),
    more=tuple(UNPUBLISHED),
    columns=tuple(COLUMNS),
    folder="runs/entailment",
    matrix=Table1,
    sizes=SCALES,
)
"""Its data are a folder of pairs, with a training file."""
