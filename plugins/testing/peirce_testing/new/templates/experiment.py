"""new_part: an experiment, trainings whose results stand in one table.

$ peirce experiments run new_part --data FOLDER_OF_CLUTRR
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen
from peirce_training import TrainResult
from peirce_training.experiments import (
    AccuracyRow,
    FigureTable,
    Scale,
    SeededMatrix,
    TableExperiment,
    accuracies,
)

SPLITS = ("valid", "test")


@frozen(kw_only=True)
class NewPartRow(AccuracyRow):
    """How many stories of a split a network names the right kinship for."""

    label: str
    split: str
    stories: int = field(converter=int)

    count = "stories"
    groups = ("split",)


class NewPartMatrix(SeededMatrix[NewPartRow]):
    """A small transformer of several depths, with several seeds each, on CLUTRR."""

    row = NewPartRow
    learns = "clutrr"

    def spec_of(self, label: str) -> tuple[str, Mapping[str, Any]]:
        """The ready spec that every row begins from, and the row's depth."""
        layers = int(label.partition(" ")[0])
        dims = {"layers": layers, "unary": 64, "heads": 4}
        return "bert-base", {"model.name": f"depth-{layers}", "model.dims": dims}

    def measure(
        self, cell: Any, trained: TrainResult, data: Any, before: Sequence[NewPartRow]
    ) -> Iterable[NewPartRow]:
        """A row for each split."""
        facts = self.facts(cell, trained)
        for split in (split for split in SPLITS if split in data.splits):
            right = self.task.right(trained.model, data, split)
            yield self.row(**facts, split=split, stories=len(right), right=int(right.sum()))

    def table(self, rows: Sequence[NewPartRow]) -> FigureTable:
        """Accuracy in percent by depth and split."""
        return self.comparison_table(
            rows,
            SPLITS,
            lambda label, split: accuracies(rows, label=label, split=split),
            {},
            name="new_part",
            title="Does a deeper transformer reason over more facts?",
            about="CLUTRR, from scratch.",
            facts=[f"Accuracy in %, {self.over_seeds}."],
            unit="accuracy (%)",
        )


NEW_PART = TableExperiment(
    name="new_part",
    title="Does a deeper transformer reason over more facts?",
    folder="runs/new_part",
    rows=("1 layer", "2 layers", "4 layers"),
    columns=SPLITS,
    matrix=NewPartMatrix,
    sizes={
        "small": Scale(
            about="500 steps on the stories of CLUTRR", settings={"train.steps": 500, "train.lr": 1e-3}
        )
    },
)
