"""`peirce experiments run tpru/table2` and `tpru/table3`: inference, and what its sentence vectors know elsewhere.

Both tables have the same rows, and in one folder they share what is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
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
    from peirce.training import TrainResult

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
class Scale:
    """How large everything is.

    Args:
        about: in a line.
        settings: of the model, the task and the training.
        channels: of a direction, and what `dim 1024` doubles.
        folds: of cross validation.
        limit: the most examples of a file of classes.
    """

    about: str
    settings: Mapping[str, Any]
    channels: int
    folds: int
    limit: int


SCALES: Mapping[str, Scale] = {
    "small": Scale(
        about="128 channels in each direction, 10 passes; 5 folds, at most 2,000 examples of a file of classes",
        settings={
            "train.epochs": 10, "train.lr": 1e-3, "train.schedule": "linear", "train.save_every": 0,
            "task.length": 256,
        },
        channels=128,
        folds=5,
        limit=2000,
    ),
    "paper": Scale(
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

    task: str
    measure: str
    value: float = field(converter=float)
    folds: int = field(converter=int)
    limit: int = field(converter=int)


@frozen(kw_only=True, eq=False)
class Inference(SeededMatrix[InferenceRow]):
    """The rows of both tables, with several seeds each.

    Args:
        task: what is learnt.
        scale: the sizes.
        transfer: the folder of SentEval's files, for Table 3; None for Table 2.
    """

    task: AnyTask
    scale: Scale
    transfer: Path | None = None

    row = InferenceRow
    columns = (
        *("run", "label", "seed", "task", "measure", "value", "folds", "limit", "parameters", "steps"),
        *("seconds", "last_loss", "spec_digest", "commit", "evaluated", "command"),
    )

    def learnt(self) -> Iterator[tuple[AnyTask, Mapping[str, Any]]]:
        """The task; which vectors they are counts, wherever they lie."""
        from peirce.training import plain

        vectors = self.prepared.of(self.task).vectors
        places = dict.fromkeys(("folder", "more", "cache", "device"), "")
        named = {"vectors": vectors.identity if vectors is not None else ""}
        yield self.task, plain(self.task.options) | places | named

    def spec_of(self, label: str) -> tuple[str, Mapping[str, Any]]:
        """See `spec_of`."""
        return spec_of(label, self.scale.channels)

    def wanted(self, row: InferenceRow) -> bool:
        """Whether a row is of this table, at this scale."""
        if self.transfer is None:
            return row.task in SPLITS
        return row.task not in SPLITS and (row.folds, row.limit) == (self.scale.folds, self.scale.limit)

    def complete(self, rows: Sequence[InferenceRow]) -> bool:
        """Whether the figures of this table are there."""
        return any(map(self.wanted, rows))

    def measured(
        self, cell: Cell, trained: TrainResult, data: Any, before: Sequence[InferenceRow]
    ) -> Iterator[InferenceRow]:
        """A row for each split, or for each measure of each task of SentEval."""
        common = self.facts(cell, trained)
        if self.transfer is None:
            task: Any = self.task
            for column, split in SPLITS.items():
                if split in data.labels:
                    value = float(task.right(trained.model, data, split).mean())
                    yield InferenceRow(
                        **common, task=column, measure="accuracy", value=value, folds=0, limit=0
                    )
            return
        from peirce_tpru.senteval.running import evaluate
        from peirce_tpru.senteval.sentences import of_model

        sentences = of_model(trained.model, self.path(cell), vectors=data.vectors or "")
        folds, limit = self.scale.folds, self.scale.limit
        for name, own in evaluate(sentences, self.transfer, folds=folds, limit=limit).items():
            for measure, value in own.items():
                if "/" not in measure:
                    yield InferenceRow(
                        **common, task=name, measure=measure, value=round(value, 6), folds=folds, limit=limit
                    )

    def found(self, rows: Sequence[InferenceRow]) -> str:
        """The main figures."""
        own = [row for row in rows if self.wanted(row) and "_" not in row.measure]
        return ", ".join(f"{row.task} {row.measure} {row.value:.3f}" for row in own)

    def table(self, rows: Sequence[InferenceRow]) -> FigureTable:
        """The figures by row beside the paper's."""
        found: dict[str, list[Figure]] = {}
        columns = tuple(SPLITS) if self.transfer is None else COLUMNS
        for label in dict.fromkeys(row.label for row in rows):
            runs: dict[str, list[InferenceRow]] = {}
            for row in rows:
                if row.label == label and self.wanted(row):
                    runs.setdefault(row.run, []).append(row)
            values = [self._figures(own) for own in runs.values()]
            for column in columns:
                given = tuple(100 * own[column] for own in values if column in own)
                found.setdefault(label, []).append(
                    Figure(row=label, column=column, values=given, paper=self._printed(label, column))
                )
        common: dict[str, Any] = {
            "columns": columns,
            "figures": found,
            "sources": self.sources(rows, "label"),
            "unit": "%",
        }
        data = self.prepared.of(self.task)
        about = f"{len(data.labels['train']):,} pairs for training."
        if self.transfer is None:
            return FigureTable(
                name="table2",
                title="TPRU, Table 2: natural language inference",
                about=about,
                facts=[f"Accuracy in %, {self.over_seeds}."],
                published="MNLI, with SNLI's training pairs and ELMo's vectors",
                **common,
            )
        limit = f", at most {self.scale.limit:,} examples of a file" if self.scale.limit else ""
        tasks = sorted({row.task for row in rows if self.wanted(row)})
        return FigureTable(
            name="table3",
            title="TPRU, Table 3: transfer to the tasks of SentEval",
            about=about,
            facts=[
                f"Accuracy, F1 for the last column, and Pearson's correlation for STS, all in %, {self.over_seeds}.",
                f"Classes with {self.scale.folds} folds{limit}.",
                f"Means are over those that are there of {', '.join(tasks)}.",
            ],
            published="MNLI and SNLI for training, ELMo's vectors",
            **common,
        )

    def _figures(self, rows: Sequence[InferenceRow]) -> Mapping[str, float]:
        """The columns of one run, from 0 to 1."""
        if self.transfer is None:
            return {row.task: row.value for row in rows}
        from peirce_tpru.senteval.running import means

        results: dict[str, dict[str, float]] = {}
        for row in rows:
            results.setdefault(row.task, {})[row.measure] = row.value
        return means(results)

    def _printed(self, label: str, column: str) -> float | None:
        if self.transfer is None:
            return dict(zip(SPLITS, PAPER2[label], strict=False)).get(column)
        return dict(zip(COLUMNS, PAPER3[label], strict=True)).get(column) if label in PAPER3 else None


def spec_of(label: str, channels: int) -> tuple[str, dict[str, Any]]:
    """The ready spec of a row, and what it changes.

    Args:
        label: the row.
        channels: of a direction, where the row does not double them.

    Raises:
        TaskError: there is no such row.
    """
    if label not in PAPER2:
        raise TaskError(f"there is no row {label!r}")
    width = 2 * channels * (2 if label.endswith(WIDE) else 1)
    unit, *rest = label.split(", ")
    slug = "-".join(label.lower().replace(",", "").split())
    changes: dict[str, Any] = {"model.name": slug, "model.dims.unary": width}
    if unit == "TPRU":
        changes["model.operators.options.tpru.roles"] = int(rest[0].split()[0])
    else:
        changes["model.operators"] = {"layer": unit.lower()}
    return ("nli-bidaf" if BIDAF in label else "nli-tpru"), changes


@frozen(kw_only=True, eq=False)
class InferenceTable(TableExperiment):
    """Table 2 or 3 as an experiment.

    Its data are a folder with the files of SNLI, MNLI or SICK and of SentEval's tasks, or with folders `mnli`, `snli`,
    whose training pairs are added, and `senteval` that have them.
    """

    scales: Mapping[str, str] = field(factory=lambda: {name: scale.about for name, scale in SCALES.items()})
    folder: str = "runs/inference"
    transfer: bool

    def asked(self, request: ExperimentRequest) -> Inference:
        """The rows that a request asks for."""
        from peirce.training import make_task

        scale = SCALES[request.scale or next(iter(SCALES))]
        data = Path(request.data)
        places = {
            "task.folder": str(data / "mnli" if (data / "mnli").is_dir() else data),
            "task.more": str(data / "snli") if (data / "snli").is_dir() else "",
            "task.vectors": ENCODER,
            "task.cache": str(request.directory / "vectors") if scale.limit else "",
        }
        common = {"train.weight_decay": 0.0, "train.keep": 1, "train.test_split": ""}
        model, task, training = settings_by_part(common, scale.settings, places, request.settings)
        return Inference(
            **self.common(request, training),
            task=make_task("nli", task),
            scale=scale,
            transfer=(data / "senteval" if (data / "senteval").is_dir() else data) if self.transfer else None,
            changes=model,
        )


TABLE2 = InferenceTable(
    name="tpru/table2",
    title="TPRU, Table 2: natural language inference by LSTM, GRU and TPRU, plain and BiDAF",
    rows=tuple(label for label in PAPER2 if not label.endswith(WIDE)),
    more=tuple(label for label in PAPER2 if label.endswith(WIDE)),
    columns=tuple(SPLITS),
    transfer=False,
)
TABLE3 = InferenceTable(
    name="tpru/table3",
    title="TPRU, Table 3: what sentence vectors trained on inference know on SentEval's tasks",
    rows=UNITS,
    more=tuple(label for label in PAPER3 if label.endswith(WIDE)),
    columns=COLUMNS,
    transfer=True,
)
