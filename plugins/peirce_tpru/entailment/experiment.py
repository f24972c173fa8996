"""`peirce experiments run tpru/table1`: recurrences that decide entailment, plain and with attention flow, by file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, field, frozen
from peirce.errors import TaskError
from peirce.experiments import (
    Cell,
    Figure,
    FigureTable,
    SeededMatrix,
    SeededRow,
    TableExperiment,
    settings_by_part,
)
from peirce.model import ExperimentRequest

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce.training import TrainingOptions, TrainResult

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
SCALES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "small": (
        "12,000 steps of 32 pairs, variables in their order, texts pooled and compared as the published code does",
        {
            "train.steps": 12_000,
            "train.lr": 3e-3,
            "train.schedule": "linear",
            "train.warmup_ratio": 0.04,
            "task.batch_size": 32,
            "task.names": "ordered",
            "model.heads.0.pool": "max",
            "model.heads.0.join": "compared",
        },
    ),
    "paper": (
        "90 epochs, the learning rate divided by 10 twice, the best model by the validation file",
        {
            "train.lr": 1e-3,
            "train.epochs": 90,
            "train.schedule": "thirds",
            "train.evaluate_every": 1563,
            "train.monitor": "accuracy",
            "train.patience": 90,
        },
    ),
}
RATES: Mapping[str, Mapping[str, float]] = {"small": dict.fromkeys(UNPUBLISHED, 5e-4)}
"""By scale, the learning rates of rows that do not learn at the scale's: the loss of the transformer with brackets
fell to 0.683 there and rose again to ln 2."""
POINTS = 12
"""A learning curve has so many points."""


@frozen(kw_only=True)
class EntailmentRow(SeededRow):
    """How a run does on one file.

    Args:
        curve: the mean training loss of each of `POINTS` equal parts of the steps, with spaces between.
    """

    file: str
    pairs: int = field(converter=int)
    right: int = field(converter=int)
    curve: str = ""

    @property
    def accuracy(self) -> float:
        """The share of pairs that are decided as their labels say."""
        return round(self.right / self.pairs, 4)


@frozen(kw_only=True, eq=False)
class Table1(SeededMatrix[EntailmentRow]):
    """The rows of the table, with several seeds each.

    Args:
        task: what is learnt.
        rates: the learning rates of rows that have their own.
    """

    task: AnyTask
    rates: Mapping[str, float] = field(factory=dict)

    row = EntailmentRow
    columns = (
        *("run", "label", "seed", "file", "pairs", "right", "accuracy", "parameters", "steps", "seconds"),
        *("last_loss", "curve", "spec_digest", "commit", "evaluated", "command"),
    )

    def learnt(self) -> Iterator[tuple[AnyTask, Mapping[str, Any]]]:
        """The task.

        Raises:
            TaskError: there is nothing to train on, or nothing to evaluate on.
        """
        from peirce.training import plain

        data = self.prepared.of(self.task)
        data.of("train")
        if not {*COLUMNS.values()} & {*data.files}:
            raise TaskError(
                f"{data.folder} has no file to evaluate on, such as validate.txt or test_easy.txt; put a published "
                "one there, or keep some lines of train.txt as validate.txt"
            )
        yield self.task, plain(self.task.options) | {"folder": "", "pairs": ""}

    def spec_of(self, label: str) -> tuple[str, Mapping[str, Any]]:
        """See `spec_of`."""
        return spec_of(label)

    def training_of(self, label: str) -> TrainingOptions:
        """With its own rate, where a row has one."""
        return evolve(self.training, lr=self.rates.get(label, self.training.lr))

    def measured(
        self, cell: Cell, trained: TrainResult, data: Any, before: Sequence[EntailmentRow]
    ) -> Iterator[EntailmentRow]:
        """A row for each file of evaluation."""
        task: Any = self.task
        means = (np.mean(part) for part in np.array_split(trained.losses, POINTS) if len(part))
        common = {
            **self.facts(cell, trained),
            "curve": " ".join(f"{mean:.4f}" for mean in means),
        }
        for file in COLUMNS.values():
            if file in data.files:
                right = task.right(trained.model, data.files[file])
                yield EntailmentRow(**common, file=file, pairs=len(right), right=int(right.sum()))

    def found(self, rows: Sequence[EntailmentRow]) -> str:
        """The accuracy on each file."""
        return ", ".join(f"{row.file} {row.accuracy:.3f}" for row in rows)

    def tables(self, rows: Sequence[EntailmentRow]) -> Sequence[FigureTable]:
        """The accuracies, and the learning curves."""
        return self.table(rows), self.curves(rows)

    def table(self, rows: Sequence[EntailmentRow]) -> FigureTable:
        """Accuracy by row and file, beside the paper's, with the heuristics below."""
        from peirce_tpru.entailment.files import HEURISTICS

        files = self.prepared.of(self.task).files
        found: dict[str, list[Figure]] = {}
        for label in dict.fromkeys(row.label for row in rows):
            paper = PAPER.get(label, (None,) * len(COLUMNS))
            found[label] = [
                Figure(row=label, column=column, values=_accuracies(rows, label, file), paper=printed)
                for (column, file), printed in zip(COLUMNS.items(), paper, strict=True)
            ]
        for i, heuristic in enumerate(HEURISTICS):
            found[heuristic] = [
                Figure(row=heuristic, column=column, values=_guessed(files.get(file), i))
                for column, file in COLUMNS.items()
            ]
        return FigureTable(
            name="table1",
            title="TPRU, Table 1: logical entailment",
            about=f"{len(files['train']):,} pairs for training.",
            columns=tuple(COLUMNS),
            figures=found,
            facts=[
                f"Accuracy in %, {self.over_seeds}.",
                "h1 to h3 are heuristics: B has no more connectives, no other variables, no other literals than A.",
            ],
            sources=self.sources(rows, "label"),
            published="the published training pairs",
            unit="accuracy (%)",
            constant=HEURISTICS,
        )

    def curves(self, rows: Sequence[EntailmentRow]) -> FigureTable:
        """The training loss by row and step, of the rows that were trained as long as the longest."""
        steps = max(row.steps for row in rows)
        columns = tuple(str(round((i + 1) * steps / POINTS)) for i in range(POINTS))
        own = {(row.label, row.seed): row.curve.split() for row in rows if row.steps == steps}
        return FigureTable(
            name="figure1",
            title="TPRU, Figure 1: learning curves",
            about=f"Training loss, mean of {steps // POINTS:,} steps.",
            columns=columns,
            figures={
                label: [
                    Figure(
                        row=label,
                        column=column,
                        values=tuple(float(each[i]) for each in found if i < len(each)),
                    )
                    for i, column in enumerate(columns)
                ]
                for label in dict.fromkeys(label for label, _ in own)
                for found in [[curve for (name, _), curve in own.items() if name == label]]
            },
            sources=self.sources(rows, "label"),
            unit="training loss",
            across="step",
            digits=3,
        )


def spec_of(label: str) -> tuple[str, dict[str, Any]]:
    """The ready spec of a row, and what it changes.

    Raises:
        TaskError: there is no such row.
    """
    if label in UNPUBLISHED:
        return UNPUBLISHED[label], {}
    if label not in PAPER:
        raise TaskError(f"there is no row {label!r}")
    unit, *rest = label.split(", ")
    changes: dict[str, Any] = {"model.name": "-".join(label.lower().replace(",", "").split())}
    if unit == "TPRU":
        changes["model.operators.options.tpru.roles"] = int(rest[0].split()[0])
    else:
        changes["model.operators"] = {"layer": unit.lower()}
    return (BIDAF if label.endswith("BiDAF") else PLAIN), changes


def _accuracies(rows: Iterable[EntailmentRow], label: str, file: str) -> tuple[float, ...]:
    return tuple(100 * row.right / row.pairs for row in rows if (row.label, row.file) == (label, file))


def _guessed(pairs: Any, heuristic: int) -> tuple[float, ...]:
    if pairs is None:
        return ()
    return (100 * float((pairs.guesses[:, heuristic] == pairs.labels).mean()),)


@frozen(kw_only=True, eq=False)
class EntailmentTable(TableExperiment):
    """Table 1 as an experiment; its data are a folder of pairs, with a training file."""

    name: str = "tpru/table1"
    title: str = "TPRU, Table 1: logical entailment by LSTM, GRU and TPRU, plain and BiDAF"
    rows: tuple[str, ...] = tuple(PAPER)
    more: tuple[str, ...] = tuple(UNPUBLISHED)
    columns: tuple[str, ...] = tuple(COLUMNS)
    scales: Mapping[str, str] = field(factory=lambda: {name: said for name, (said, _) in SCALES.items()})
    folder: str = "runs/entailment"

    def asked(self, request: ExperimentRequest) -> Table1:
        """The rows that a request asks for."""
        from peirce.training import make_task

        chosen = request.scale or next(iter(SCALES))
        scale = SCALES[chosen][1]
        common = {"train.weight_decay": 0.0, "train.keep": 1, "train.test_split": ""}
        model, task, training = settings_by_part(
            common, scale, {"task.folder": request.data}, request.settings
        )
        return Table1(
            **self.common(request, training),
            task=make_task("entailment", task),
            rates={} if "train.lr" in request.settings else RATES.get(chosen, {}),
            changes=model,
        )


TABLE1 = EntailmentTable()
