"""`peirce experiments run logical/table2`: encoders that answer questions, plain and with logical embeddings.

A logical model is also asked with its `logical_ids` taken away, and with those of other rows: if it answers as well, it
does not use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import field, frozen

from peirce.errors import TaskError
from peirce_papers.logic.matrix import DEPTH, LogicalMatrix
from peirce_training.experiments import AccuracyRow, Cell, FigureTable, Scale, TableExperiment, accuracies

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce_logic.choices.task import ChoiceData, MultipleChoice
    from peirce_training import TrainResult

COLUMNS = ("ReClor", "LogiQA", "DREAM")
"""The columns of the paper's table; their data lie in folders of these names, in small letters."""
PAPER: Mapping[str, tuple[float, ...]] = {
    "RoBERTa-large": (62.6, 35.3, 82.1),
    "Logical-RoBERTa-large": (67.4, 37.8, 84.9),
}
"""Table 2 of the paper."""
SMALL = ("MiniLM", "Logical-MiniLM")
GATED = "Logical-MiniLM, gated"
SCALES = {
    "small": Scale(
        about="MiniLM, one epoch of 128 tokens a row",
        settings={"task.length": 128, "task.batch_size": 8, "train.epochs": 1, "train.lr": 1e-4},
        rows=SMALL,
    ),
    "paper": Scale(
        about="RoBERTa large, ten epochs of 256 tokens a row; the paper does not tell its settings",
        settings={"task.length": 256, "task.batch_size": 24, "train.epochs": 10, "train.lr": 1e-5},
        rows=tuple(PAPER),
    ),
}
FOUND, NONE, OTHERS = "found", "none", "of others"
"""The ids that a model is asked with: those of its texts, no relation anywhere, and those of other rows."""
PROBED = 500
"""The answers without the right ids are asked of so many questions, the first ones."""


@frozen(kw_only=True)
class ChoiceRow(AccuracyRow):
    """How a run does on the questions of one type, or on all of them, with some ids."""

    label: str
    data: str
    split: str
    type: str
    ids: str
    questions: int = field(converter=int)

    count = "questions"
    groups = ("type", "ids")


class Table2(LogicalMatrix[ChoiceRow]):
    """The rows of the table, with several seeds each; all read the same ids, and plain ones leave them.

    The data are a folder with one of `COLUMNS` or several, or one of these.
    """

    row = ChoiceRow
    learns = "multiple_choice"
    changed: ClassVar[Mapping[str, Any]] = {
        GATED: ("logical-minilm", {"model.augmenters": [{"use": "logical", "depth": DEPTH, "gate": True}]})
    }

    def folders(self) -> Mapping[str, Mapping[str, Any]]:
        """A task for each column that there are data to train on for.

        Raises:
            TaskError: there is none.
        """
        data, found = Path(self.request.data), {}
        for column in COLUMNS:
            place = data if data.name.lower() == column.lower() else data / column.lower()
            if place.is_dir() and any(path.name.lower().startswith("train") for path in place.iterdir()):
                found[column] = {"folder": str(place)}
        if not found:
            names = " or ".join(each.lower() for each in COLUMNS)
            raise TaskError(
                f"{data} holds no folder with a training file of {names}; give --data the folder that these lie in"
            )
        return found

    def task_identity(self, name: str, task: AnyTask) -> Mapping[str, Any]:
        """Which data they are counts, wherever they lie."""
        told = {**super().task_identity(name, task), "folder": name}
        if not told["relations"]:
            del told["relations"]  # runs from before there was such an option keep their names
        return told

    def measure(
        self, cell: Cell, trained: TrainResult, data: ChoiceData, before: Sequence[ChoiceRow]
    ) -> Iterator[ChoiceRow]:
        """Rows for all questions, for those of each type, and for the first ones with and without their ids."""
        from peirce_logic.choices.task import first_questions, with_ids

        task: MultipleChoice = cell.task  # type: ignore[assignment]  # it is what `tasks` hold
        split = "test" if "test" in data.splits else "valid"
        column = next(column for column, each in self.tasks.items() if each is task)
        common = {**self.facts(cell, trained), "data": column, "split": split}

        def row(type: str, ids: str, right: Any) -> ChoiceRow:
            return ChoiceRow(**common, type=type, ids=ids, questions=len(right), right=int(right.sum()))

        right = task.right(trained.model, data, split)
        yield row("", FOUND, right)
        types = data.splits[split].types
        for type in sorted({name for each in types for name in each}):
            yield row(type, FOUND, right[[type in each for each in types]])
        if "logical_ids" in {spec.name for spec in trained.model.signature.inputs}:
            few = first_questions(data, split, PROBED)
            yield row("", f"{FOUND}, first", right[: len(few.splits[split].answers)])
            for ids, seed in ((NONE, None), (OTHERS, cell.seed)):
                yield row("", f"{ids}, first", task.right(trained.model, with_ids(few, split, seed), split))

    def table(self, rows: Sequence[ChoiceRow]) -> FigureTable:
        """Accuracy by row and data set, and by type of questions, with the paper's figures."""
        columns = {column: (column, "") for column in COLUMNS}
        for column in COLUMNS:
            types = sorted({row.type for row in rows if row.data == column and row.type})
            columns |= {f"{column}, {type}": (column, type) for type in types}

        def accuracy(label: str, column: str) -> tuple[float, ...]:
            data, type = columns[column]
            return accuracies(rows, label=label, data=data, type=type, ids=FOUND)

        notes = [
            f"{column}: {len(self.prepared.get(task).splits['train'].answers):,} questions for training"
            for column, task in self.tasks.items()
        ]
        return self.comparison_table(
            rows,
            columns,
            accuracy,
            PAPER,
            labels=PAPER,
            name="table2",
            title="Logical Transformers, Table 2: questions about a text",
            about="; ".join(notes) + ".",
            facts=[f"Accuracy in %, {self.over_seeds}, after {self.lengths(rows)} steps.", *_probes(rows)],
            published="the published models",
            unit="accuracy (%)",
        )


def _probes(rows: Sequence[ChoiceRow]) -> Iterator[str]:
    for label, data in dict.fromkeys((row.label, row.data) for row in rows if row.ids != FOUND):
        means = []
        for ids in (FOUND, NONE, OTHERS):
            found = accuracies(rows, label=label, data=data, type="", ids=f"{ids}, first")
            means.append(f"{sum(found) / len(found):.1f} with ids {ids}")
        yield f"{label} on the first questions of {data}: {', '.join(means)}."


TABLE2 = TableExperiment(
    name="logical/table2",
    title="Logical Transformers, Table 2: questions about a text, plain and with logical embeddings",
    rows=SMALL,
    more=(GATED, "RoBERTa-base", "Logical-RoBERTa-base", *PAPER),
    columns=COLUMNS,
    folder="runs/logical",
    matrix=Table2,
    sizes=SCALES,
)
