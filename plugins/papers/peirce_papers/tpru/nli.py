"""`peirce experiments run tpru/table2` and `tpru/table3`: inference, and what its sentence vectors know elsewhere.

Both tables have the same rows, and in one folder they share what is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import field, frozen

from peirce_papers.tpru.entailment import unit_changes
from peirce_training.experiments import (
    Cell,
    FigureTable,
    Scale,
    SeededMatrix,
    SeededRow,
    TableExperiment,
    by_run,
)

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce_text import TextClassData
    from peirce_training import TrainResult

SPLITS: Mapping[str, str] = {"dev": "valid", "dev, mismatched": "valid_mismatched", "test": "test"}
"""The columns of Table 2 and their splits; MNLI's dev set is its matched one, and its test set has no labels."""
COLUMNS = ("Binary", "SST-5", "TREC", "SICK-E", "STS (Su.)", "STS (Un.)", "MRPC", "MRPC F1")
"""The columns of Table 3."""
ROLES = (16, 64, 256, 1024)
UNITS = ("LSTM", "GRU", *(f"TPRU, {roles} roles" for roles in ROLES))
WIDE, BIDAF = ", dim 1024", ", BiDAF"
PAPER2: Mapping[str, tuple[float, float]] = {
    unit + architecture: figures
    for architecture, column in {
        "": ((72.0, 73.2), (72.1, 72.8), (72.4, 73.5), (73.0, 73.5), (73.1, 73.9), (73.2, 73.8)),
        BIDAF: ((76.0, 75.5), (74.2, 74.8), (73.9, 75.0), (74.8, 75.5), (75.9, 76.8), (76.2, 76.6)),
        WIDE: ((72.5, 73.9), (72.6, 73.6), (72.9, 73.9), (73.4, 74.4), (73.7, 74.6), (74.2, 74.7)),
        BIDAF + WIDE: ((75.5, 76.6), (74.8, 75.9), (73.9, 75.2), (74.4, 76.0), (75.2, 76.8), (76.7, 77.3)),
    }.items()
    for unit, figures in zip(UNITS, column, strict=True)
}
"""Table 2 of the paper: MNLI, matched and mismatched, at 512 channels in each direction and at 1,024."""
PAPER3: Mapping[str, tuple[float, ...]] = {
    "LSTM": (87.0, 47.5, 89.7, 84.4, 81.8, 62.5, 77.8, 83.8),
    "GRU": (87.0, 47.5, 91.1, 84.8, 80.3, 62.5, 76.9, 83.4),
    "TPRU, 16 roles": (86.8, 47.0, 89.5, 84.8, 80.0, 60.7, 76.3, 82.8),
    "TPRU, 64 roles": (87.1, 46.9, 89.9, 85.1, 80.8, 62.1, 76.8, 83.3),
    "TPRU, 256 roles": (87.2, 47.2, 90.1, 85.2, 81.3, 62.6, 77.4, 84.1),
    "TPRU, 1024 roles": (87.4, 48.1, 90.5, 85.4, 82.4, 62.8, 77.1, 83.9),
    "LSTM, dim 1024": (87.6, 47.3, 92.7, 85.0, 81.7, 63.3, 77.0, 83.6),
    "GRU, dim 1024": (87.5, 48.9, 92.6, 85.8, 81.2, 62.8, 77.6, 84.0),
    "TPRU, 16 roles, dim 1024": (87.4, 47.5, 91.3, 85.6, 79.6, 60.9, 76.2, 83.2),
    "TPRU, 64 roles, dim 1024": (87.8, 47.8, 92.0, 85.6, 80.7, 62.3, 77.5, 83.8),
    "TPRU, 256 roles, dim 1024": (87.8, 47.9, 92.5, 86.0, 80.6, 63.3, 77.6, 83.9),
    "TPRU, 1024 roles, dim 1024": (87.9, 48.5, 91.9, 85.9, 81.5, 63.9, 77.5, 84.4),
}
"""Table 3 of the paper."""
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
"""Whose frozen vectors stand in for ELMo's, unless `task.vectors` names others."""


@frozen(kw_only=True)
class InferenceScale(Scale):
    """A scale with `channels` of a direction, which `dim 1024` doubles, and SentEval's `folds` of cross validation and
    `limit`, the most examples of a file of classes."""

    channels: int
    folds: int
    limit: int


SCALES: Mapping[str, InferenceScale] = {
    "small": InferenceScale(
        about="128 channels in each direction, 10 passes; 5 folds, at most 2,000 examples of a file of classes",
        settings={
            "train.epochs": 10, "train.lr": 1e-3, "train.schedule": "linear", "train.save_every": 0,
            "task.length": 256,
        },
        channels=128,
        folds=5,
        limit=2000,
    ),
    "paper": InferenceScale(
        about="512 channels in each direction, 10 passes, the best model by its dev sets; 10 folds, all examples",
        settings={
            "train.epochs": 10, "train.lr": 1e-4, "train.schedule": "constant", "train.evaluate_every": 5000,
            "train.monitor": "score", "train.patience": 100,
        },
        channels=512,
        folds=10,
        limit=0,
    ),
}  # fmt: skip


@frozen(kw_only=True)
class InferenceRow(SeededRow):
    """One figure of a run: its accuracy on a split, or a measure of a task of SentEval, from 0 to 1."""

    label: str
    task: str
    measure: str
    value: float = field(converter=float)
    folds: int = field(converter=int)
    limit: int = field(converter=int)

    def __str__(self) -> str:
        return "" if "_" in self.measure else f"{self.task} {self.measure} {self.value:.3f}"


class Table2(SeededMatrix[InferenceRow]):
    """The rows of both tables, with several seeds each, and their accuracy on the splits.

    The data are a folder with the files of SNLI, MNLI or SICK, or with folders `mnli`, and `snli`, whose training pairs
    are added.
    """

    row = InferenceRow
    learns = "nli"
    common: ClassVar[Mapping[str, Any]] = {**SeededMatrix.common, "train.weight_decay": 0.0}
    aside: ClassVar[Mapping[str, Any]] = dict.fromkeys(("folder", "more", "cache", "device"), "")

    def places(self) -> Mapping[str, Any]:
        """The folders of pairs, the encoder of words, and where its vectors are kept."""
        data = Path(self.request.data)
        return {
            "task.folder": str(_subfolder(data, "mnli")),
            "task.more": str(data / "snli") if (data / "snli").is_dir() else "",
            "task.vectors": ENCODER,
            "task.cache": str(self.request.directory / "vectors") if self.scale.limit else "",
        }

    def task_identity(self, name: str, task: AnyTask) -> Mapping[str, Any]:
        """Which vectors they are counts, wherever they lie."""
        from peirce_tpru.nli.task import vectors_in

        vectors = vectors_in(self.data)
        return {
            **super().task_identity(name, task),
            "vectors": vectors.identity if vectors is not None else "",
        }

    def spec_of(self, label: str) -> tuple[str, Mapping[str, Any]]:
        """See `spec_of`."""
        return spec_of(label, self.scale.channels)

    def is_wanted(self, row: InferenceRow) -> bool:
        """Whether it is an accuracy."""
        return row.task in SPLITS

    def measure(
        self, cell: Cell, trained: TrainResult, data: TextClassData, before: Sequence[InferenceRow]
    ) -> Iterator[InferenceRow]:
        """A row for each split."""
        common = {**self.facts(cell, trained), "measure": "accuracy", "folds": 0, "limit": 0}
        for column, split in SPLITS.items():
            if split in data.splits:
                value = float(self.task.right(trained.model, data, split).mean())
                yield InferenceRow(**common, task=column, value=value)

    def table(self, rows: Sequence[InferenceRow]) -> FigureTable:
        """Accuracy by row and split."""
        return self.comparison_table(
            rows,
            SPLITS,
            lambda label, column: [100 * found[0].value for found in by_run(rows, label=label, task=column)],
            PAPER2,
            name="table2",
            title="TPRU, Table 2: natural language inference",
            about=f"{len(self.data.splits['train']):,} pairs for training.",
            facts=[f"Accuracy in %, {self.over_seeds}."],
            published="MNLI, with SNLI's training pairs and ELMo's vectors",
            unit="%",
        )


class Table3(Table2):
    """The same rows, and what their sentence vectors know on SentEval's tasks, which lie beside or in `senteval`."""

    def is_wanted(self, row: InferenceRow) -> bool:
        """Whether it is a measure of SentEval, at this scale."""
        return row.task not in SPLITS and (row.folds, row.limit) == (self.scale.folds, self.scale.limit)

    def measure(
        self, cell: Cell, trained: TrainResult, data: TextClassData, before: Sequence[InferenceRow]
    ) -> Iterator[InferenceRow]:
        """A row for each measure of each task of SentEval."""
        from peirce_tpru.nli.task import vectors_in
        from peirce_tpru.senteval.evaluation import evaluate
        from peirce_tpru.senteval.sentences import sentences_of

        sentences = sentences_of(self.path(cell), model=trained.model, vectors=vectors_in(data) or "")
        how = {"folds": self.scale.folds, "limit": self.scale.limit}
        common = {**self.facts(cell, trained), **how}
        for name, measures in evaluate(
            sentences, _subfolder(Path(self.request.data), "senteval"), **how
        ).items():
            for measure, value in measures.items():
                if "/" not in measure:
                    yield InferenceRow(**common, task=name, measure=measure, value=round(value, 6))

    def table(self, rows: Sequence[InferenceRow]) -> FigureTable:
        """SentEval's measures by row."""
        from peirce_tpru.senteval.evaluation import means

        def measures(figures: Sequence[InferenceRow]) -> Mapping[str, float]:
            results: dict[str, dict[str, float]] = {}
            for row in figures:
                results.setdefault(row.task, {})[row.measure] = row.value
            return means(results)

        wanted = list(filter(self.is_wanted, rows))
        found = {label: list(map(measures, by_run(wanted, label=label))) for label in {r.label for r in rows}}
        limit = f", at most {self.scale.limit:,} examples of a file" if self.scale.limit else ""
        return self.comparison_table(
            rows,
            COLUMNS,
            lambda label, column: [100 * figures[column] for figures in found[label] if column in figures],
            PAPER3,
            name="table3",
            title="TPRU, Table 3: transfer to the tasks of SentEval",
            about=f"{len(self.data.splits['train']):,} pairs for training.",
            facts=[
                f"Accuracy, F1 for the last column, and Pearson's correlation for STS, all in %, {self.over_seeds}.",
                f"Classes with {self.scale.folds} folds{limit}.",
                f"Means are over those that are there of {', '.join(sorted({row.task for row in wanted}))}.",
            ],
            published="MNLI and SNLI for training, ELMo's vectors",
            unit="%",
        )


def spec_of(label: str, channels: int) -> tuple[str, dict[str, Any]]:
    """The ready spec of a row, and what it changes.

    Args:
        label: the row.
        channels: of a direction, where the row does not double them.
    """
    width = 2 * channels * (2 if label.endswith(WIDE) else 1)
    changes = {**unit_changes(label), "model.dims.unary": width}
    return ("nli-bidaf" if BIDAF in label else "nli-tpru"), changes


def _subfolder(folder: Path, name: str) -> Path:
    """The folder of that name in a folder, or the folder itself."""
    return folder / name if (folder / name).is_dir() else folder


TABLE2 = TableExperiment(
    name="tpru/table2",
    title="TPRU, Table 2: natural language inference by LSTM, GRU and TPRU, plain and BiDAF",
    rows=tuple(label for label in PAPER2 if not label.endswith(WIDE)),
    more=tuple(label for label in PAPER2 if label.endswith(WIDE)),
    columns=tuple(SPLITS),
    folder="runs/inference",
    matrix=Table2,
    sizes=SCALES,
)
TABLE3 = TableExperiment(
    name="tpru/table3",
    title="TPRU, Table 3: what sentence vectors trained on inference know on SentEval's tasks",
    rows=UNITS,
    more=tuple(label for label in PAPER3 if label.endswith(WIDE)),
    columns=COLUMNS,
    folder="runs/inference",
    matrix=Table3,
    sizes=SCALES,
)
