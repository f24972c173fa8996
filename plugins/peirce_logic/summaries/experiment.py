"""`peirce experiments run logical/table3`: models that summarise dialogues, plain and with logical embeddings.

The smoke test trains a small BART from scratch on DialogSum's development file. It shows that everything runs, and
nothing about the method.
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
from peirce_logic.summaries.rouge import MEASURES

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce.training import TrainResult

    from peirce_logic.summaries.task import Summarise, SummaryData

COLUMNS = ("R-1", "R-2", "R-L", "R-LSum")
PAPER: Mapping[str, tuple[float | None, ...]] = {
    "BART-large": (46.10, 20.32, None, 40.98),
    "Logical-BART-large": (46.97, 20.69, None, 41.30),
}
"""Table 3 of the paper, as far as its text has it: R-L is lost."""
SMOKE = ("small BART", "Logical small BART")
_SMALL: Mapping[str, Any] = {
    "model.options": {
        "config": {
            "model_type": "bart", "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
            "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
            "max_position_embeddings": 512,
        }
    },
    "model.regularisation.init_std": 0.05,
}  # fmt: skip
SPECS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    SMOKE[0]: ("bart-base", _SMALL),
    SMOKE[1]: ("logical-bart-base", _SMALL),
    "BART-base": ("bart-base", {}),
    "Logical-BART-base": ("logical-bart-base", {}),
    "BART-large": ("bart-large", {}),
    "Logical-BART-large": ("logical-bart-large", {}),
}
"""The ready spec of each row, and what the row changes of it."""
SCALES: Mapping[str, tuple[str, tuple[str, ...], str, Mapping[str, Any]]] = {
    "smoke": (
        "smoke test: a small BART from scratch, on the development file",
        SMOKE,
        "dev",
        {
            "task.length": 256,
            "task.vocabulary": 2000,
            "task.batch_size": 8,
            "task.beams": 2,
            "train.steps": 1200,
            "train.lr": 2e-3,
        },
    ),
    "paper": (
        "BART large, three epochs of the training file; the paper does not tell its settings",
        tuple(PAPER),
        "train",
        {"task.length": 1024, "task.summary_length": 128, "train.epochs": 3, "train.lr": 3e-5},
    ),
}
"""What each scale is, its rows, the file that it trains on, and its settings."""


@frozen(kw_only=True)
class SummaryRow(SeededRow):
    """ROUGE of a run's summaries, from 0 to 1."""

    trained_on: str
    texts: int = field(converter=int)
    rouge1: float = field(converter=float)
    rouge2: float = field(converter=float)
    rougeL: float = field(converter=float)  # noqa: N815 - as the measure is called
    rougeLsum: float = field(converter=float)  # noqa: N815


@frozen(kw_only=True, eq=False)
class Table3(SeededMatrix[SummaryRow]):
    """The rows of the table, with several seeds each.

    Args:
        task: what is learnt; all rows read the same ids, and plain ones leave them.
        trained_on: the file that it learns from.
    """

    task: Summarise
    trained_on: str

    row = SummaryRow
    columns = (
        *("run", "label", "seed", "trained_on", "texts", *MEASURES, "parameters", "steps", "seconds"),
        *("last_loss", "spec_digest", "commit", "evaluated", "command"),
    )

    def learnt(self) -> Iterator[tuple[AnyTask, Mapping[str, Any]]]:
        """The task; how relations are found anew does not count either."""
        from peirce.training import plain

        moved = {"data": self.trained_on, "test_data": "test", "cache": "", "processes": 1, "tokenizer": ""}
        yield self.task, plain(self.task.options) | moved

    def spec_of(self, label: str) -> tuple[str, Mapping[str, Any]]:
        """As `SPECS` has it."""
        return SPECS[label]

    def measured(
        self, cell: Cell, trained: TrainResult, data: SummaryData, before: Sequence[SummaryRow]
    ) -> Iterator[SummaryRow]:
        """One row: ROUGE on the test file."""
        found = self.task.metrics(trained.model, data, "test")
        scores: dict[str, Any] = {measure: round(found[measure], 5) for measure in MEASURES}
        yield SummaryRow(
            **self.facts(cell, trained),
            **scores,
            trained_on=self.trained_on,
            texts=self.task.options.examples or len(data.splits["test"].texts),
        )

    def found(self, rows: Sequence[SummaryRow]) -> str:
        """ROUGE."""
        (row,) = rows
        return ", ".join(f"{measure} {100 * getattr(row, measure):.2f}" for measure in MEASURES)

    def table(self, rows: Sequence[SummaryRow]) -> FigureTable:
        """ROUGE by row, beside the paper's."""
        labels = dict.fromkeys([*(row.label for row in rows), *PAPER])
        figures = {
            label: [
                Figure(
                    row=label,
                    column=column,
                    values=tuple(100 * getattr(row, measure) for row in rows if row.label == label),
                    paper=PAPER[label][i] if label in PAPER else None,
                )
                for i, (column, measure) in enumerate(zip(COLUMNS, MEASURES, strict=True))
            ]
            for label in labels
        }
        (texts,) = {row.texts for row in rows}
        (read,) = {row.trained_on for row in rows}
        smoke = ["A smoke test: it shows that everything runs, and nothing about the method."]
        steps = " or ".join(f"{steps:,}" for steps in sorted({row.steps for row in rows}))
        return FigureTable(
            name="table3",
            title="Logical Transformers, Table 3: summaries of DialogSum",
            about=f"Trained on the {read} file, evaluated on {texts:,} test dialogues with their references.",
            columns=COLUMNS,
            figures=figures,
            facts=[
                *(smoke if read == "dev" else ()),
                f"ROUGE F1 in %, the mean over a dialogue's references; {self.over_seeds}, after {steps} steps.",
            ],
            sources=self.sources(rows, "label"),
            published="the published models",
            unit="ROUGE F1 (%)",
            digits=2,
        )


@frozen(kw_only=True, eq=False)
class SummaryTable(TableExperiment):
    """Table 3 as an experiment; its data are the folder of DialogSum."""

    name: str = "logical/table3"
    title: str = "Logical Transformers, Table 3: summaries, plain and with logical embeddings"
    rows: tuple[str, ...] = SMOKE
    more: tuple[str, ...] = tuple(label for label in SPECS if label not in SMOKE)
    columns: tuple[str, ...] = COLUMNS
    scales: Mapping[str, str] = field(factory=lambda: {name: said for name, (said, *_) in SCALES.items()})
    folder: str = "runs/dialogsum"

    def asked(self, request: ExperimentRequest) -> Table3:
        """The rows that a request asks for.

        Raises:
            TaskError: a file is not there, or no tokenizer is named for pretrained models.
        """
        from peirce.training import make_task

        _, labels, read, scale = SCALES[request.scale or next(iter(SCALES))]
        files = {
            "task.data": file_of(Path(request.data), read),
            "task.test_data": file_of(Path(request.data), "test"),
        }
        named = {name: str(path) for name, path in files.items()}
        model, task, training = settings_of(request, {**named, **scale})
        common = self.common(request, training, labels)
        if not task["tokenizer"] and set(common["labels"]) - set(SMOKE):
            raise TaskError(
                "logical/table3 needs the tokenizer of a pretrained model: --set task.tokenizer=FOLDER, or "
                "--set model.options.source=FOLDER for a model that lies there"
            )
        return Table3(
            **common,
            task=make_task("summarise", task),  # type: ignore[arg-type]  # it is what the name says
            trained_on=read,
            changes=model,
        )


def file_of(folder: Path, split: str) -> Path:
    """The file of a split of DialogSum, such as `dialogsum.train.jsonl` or `dev.jsonl.gz`.

    Raises:
        TaskError: there is none.
    """
    for name in (f"dialogsum.{split}.jsonl", f"{split}.jsonl"):
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    raise TaskError(
        f"{folder} holds no {split}.jsonl, gzipped or not; give --data the folder of DialogSum's files"
    )


TABLE3 = SummaryTable()
