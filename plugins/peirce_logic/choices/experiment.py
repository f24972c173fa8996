"""`peirce experiments run logical/table2`: encoders that answer questions, plain and with logical embeddings.

A logical model is also asked with its `logical_ids` taken away, and with those of other rows: if it answers as well, it
does not use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from peirce.errors import TaskError
from peirce.experiments import Cell, Figure, FigureTable, SeededMatrix, SeededRow, TableExperiment
from peirce.model import ExperimentRequest

from peirce_logic.experiments import settings_of

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce.training import TrainResult

    from peirce_logic.choices.task import ChoiceData, MultipleChoice

COLUMNS = ("ReClor", "LogiQA", "DREAM")
"""The columns of the paper's table; their data lie in folders of these names, in small letters."""
PAPER: Mapping[str, tuple[float, ...]] = {
    "RoBERTa-large": (62.6, 35.3, 82.1),
    "Logical-RoBERTa-large": (67.4, 37.8, 84.9),
}
"""Table 2 of the paper."""
SMALL = ("MiniLM", "Logical-MiniLM")
SPECS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "MiniLM": ("minilm", {}),
    "Logical-MiniLM": ("logical-minilm", {}),
    "Logical-MiniLM, gated": (
        "logical-minilm",
        {"model.augmenters": [{"use": "logical", "depth": 3, "gate": True}]},
    ),
    "RoBERTa-base": ("roberta-base", {}),
    "Logical-RoBERTa-base": ("logical-roberta-base", {}),
    "RoBERTa-large": ("roberta-large", {}),
    "Logical-RoBERTa-large": ("logical-roberta-large", {}),
}
"""The ready spec of each row, and what the row changes of it."""
SCALES: Mapping[str, tuple[str, tuple[str, ...], Mapping[str, Any]]] = {
    "small": (
        "MiniLM, one epoch of 128 tokens a row",
        SMALL,
        {"task.length": 128, "task.batch_size": 8, "train.epochs": 1, "train.lr": 1e-4},
    ),
    "paper": (
        "RoBERTa large, ten epochs of 256 tokens a row; the paper does not tell its settings",
        tuple(PAPER),
        {"task.length": 256, "task.batch_size": 24, "train.epochs": 10, "train.lr": 1e-5},
    ),
}
FOUND, NONE, OTHERS = "found", "none", "of others"
"""The ids that a model is asked with: those of its texts, no relation anywhere, and those of other rows."""
PROBED = 500
"""Of so many questions the answers without the right ids are asked, the first ones."""


@frozen(kw_only=True)
class ChoiceRow(SeededRow):
    """How a run does on the questions of one type, or on all of them, with some ids."""

    data: str
    split: str
    type: str
    ids: str
    questions: int = field(converter=int)
    right: int = field(converter=int)

    @property
    def accuracy(self) -> float:
        """The share of questions that are answered rightly."""
        return round(self.right / self.questions, 4)


@frozen(kw_only=True, eq=False)
class Table2(SeededMatrix[ChoiceRow]):
    """The rows of the table, with several seeds each.

    Args:
        tasks: by column, what is learnt; all rows read the same ids, and plain ones leave them.
    """

    tasks: Mapping[str, AnyTask]

    row = ChoiceRow
    columns = (
        *("run", "label", "seed", "data", "split", "type", "ids", "questions", "right", "accuracy"),
        *("parameters", "steps", "seconds", "last_loss", "spec_digest", "commit", "evaluated", "command"),
    )

    def learnt(self) -> Iterator[tuple[AnyTask, Mapping[str, Any]]]:
        """The tasks; how relations are found anew does not count either."""
        from peirce.training import plain

        for column, task in self.tasks.items():
            told = plain(task.options) | {"folder": column, "cache": "", "processes": 1, "tokenizer": ""}
            if not told["relations"]:
                del told["relations"]  # runs from before there was such an option keep their names
            yield task, told

    def spec_of(self, label: str) -> tuple[str, Mapping[str, Any]]:
        """As `SPECS` has it."""
        return SPECS[label]

    def measured(
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
            yield row("", f"{NONE}, first", task.right(trained.model, with_ids(few, split, None), split))
            yield row(
                "", f"{OTHERS}, first", task.right(trained.model, with_ids(few, split, cell.seed), split)
            )

    def found(self, rows: Sequence[ChoiceRow]) -> str:
        """The accuracy on each kind of questions."""
        return ", ".join(f"{row.type or 'all'} ({row.ids}) {row.accuracy:.3f}" for row in rows)

    def table(self, rows: Sequence[ChoiceRow]) -> FigureTable:
        """Accuracy by row and data set, and by type of questions, with the paper's figures."""
        columns: dict[str, tuple[str, str]] = {}
        for column in COLUMNS:
            columns[column] = (column, "")
            for type in sorted({r.type for r in rows if r.data == column and r.type}):
                columns[f"{column}, {type}"] = (column, type)
        labels = [*dict.fromkeys(row.label for row in rows), *(each for each in PAPER)]
        figures = {
            label: [
                Figure(
                    row=label,
                    column=head,
                    values=_accuracies(rows, label, *where, FOUND),
                    paper=PAPER[label][COLUMNS.index(head)] if label in PAPER and head in COLUMNS else None,
                )
                for head, where in columns.items()
            ]
            for label in dict.fromkeys(labels)
        }
        return FigureTable(
            name="table2",
            title="Logical Transformers, Table 2: questions about a text",
            about="; ".join(
                f"{column}: {len(self.prepared.of(task).splits['train'].answers):,} questions for training"
                for column, task in self.tasks.items()
            )
            + ".",
            columns=tuple(columns),
            figures=figures,
            facts=[
                f"Accuracy in %, {self.over_seeds}, after "
                f"{' or '.join(f'{steps:,}' for steps in sorted({row.steps for row in rows}))} steps.",
                *self._probes(rows),
            ],
            sources=self.sources(rows, "label"),
            published="the published models",
            unit="accuracy (%)",
        )

    def _probes(self, rows: Sequence[ChoiceRow]) -> Iterator[str]:
        for label in dict.fromkeys(row.label for row in rows if row.ids != FOUND):
            for data in dict.fromkeys(row.data for row in rows if row.label == label):
                means = []
                for ids in (FOUND, NONE, OTHERS):
                    found = _accuracies(rows, label, data, "", f"{ids}, first")
                    means.append(f"{sum(found) / len(found):.1f} with ids {ids}")
                yield f"{label} on the first questions of {data}: {', '.join(means)}."


def _accuracies(rows: Sequence[ChoiceRow], label: str, data: str, type: str, ids: str) -> tuple[float, ...]:
    return tuple(
        100 * row.right / row.questions
        for row in rows
        if (row.label, row.data, row.type, row.ids) == (label, data, type, ids)
    )


@frozen(kw_only=True, eq=False)
class ChoiceTable(TableExperiment):
    """Table 2 as an experiment; its data are a folder with one of `COLUMNS` or several, or one of these."""

    name: str = "logical/table2"
    title: str = "Logical Transformers, Table 2: questions about a text, plain and with logical embeddings"
    rows: tuple[str, ...] = SMALL
    more: tuple[str, ...] = tuple(label for label in SPECS if label not in SMALL)
    columns: tuple[str, ...] = COLUMNS
    scales: Mapping[str, str] = field(factory=lambda: {name: said for name, (said, *_) in SCALES.items()})
    folder: str = "runs/logical"

    def asked(self, request: ExperimentRequest) -> Table2:
        """The rows that a request asks for.

        Raises:
            TaskError: there are no data to train on, or no tokenizer is named.
        """
        from peirce.training import make_task

        _, labels, scale = SCALES[request.scale or next(iter(SCALES))]
        model, task, training = settings_of(request, scale)
        if not task["tokenizer"]:
            raise TaskError(
                "logical/table2 needs the tokenizer of the pretrained model: --set task.tokenizer=FOLDER, or "
                "--set model.options.source=FOLDER for a model that lies there"
            )
        return Table2(
            **self.common(request, training, labels),
            tasks={
                column: make_task("multiple_choice", {**task, "folder": str(folder)})
                for column, folder in trained_on(Path(request.data)).items()
            },
            changes=model,
        )


def trained_on(folder: Path) -> dict[str, Path]:
    """By column, the folders of data sets that have questions to train on.

    Raises:
        TaskError: there is none.
    """
    places = {
        column: folder if folder.name.lower() == column.lower() else folder / column.lower()
        for column in COLUMNS
    }
    found = {
        column: place
        for column, place in places.items()
        if place.is_dir() and any(path.name.lower().startswith("train") for path in place.iterdir())
    }
    if not found:
        raise TaskError(
            f"{folder} holds no folder with a training file of {' or '.join(each.lower() for each in COLUMNS)}; give "
            "--data the folder that these lie in"
        )
    return found


TABLE2 = ChoiceTable()
