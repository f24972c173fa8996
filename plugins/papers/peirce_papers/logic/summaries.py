"""`peirce experiments run logical/table3`: models that summarise dialogues, plain and with logical embeddings.

The smoke test trains a small BART from scratch on DialogSum's development file. It shows that everything runs, and
nothing about the method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import field, frozen

from peirce.errors import TaskError
from peirce_logic.summaries.rouge import MEASURES
from peirce_papers.logic.matrix import LogicalMatrix
from peirce_training.experiments import Cell, FigureTable, Scale, SeededRow, TableExperiment

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce_logic.summaries.task import SummaryData
    from peirce_training import TrainResult

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


@frozen(kw_only=True)
class SummaryScale(Scale):
    """A scale, and the file of DialogSum that it trains on."""

    read: str


SCALES = {
    "smoke": SummaryScale(
        about="smoke test: a small BART from scratch, on the development file",
        settings={
            "task.length": 256, "task.vocabulary": 2000, "task.batch_size": 8, "task.beams": 2, "train.steps": 1200,
            "train.lr": 2e-3,
        },
        rows=SMOKE,
        read="dev",
    ),
    "paper": SummaryScale(
        about="BART large, three epochs of the training file; the paper does not tell its settings",
        settings={"task.length": 1024, "task.summary_length": 128, "train.epochs": 3, "train.lr": 3e-5},
        rows=tuple(PAPER),
        read="train",
    ),
}  # fmt: skip


@frozen(kw_only=True)
class SummaryRow(SeededRow):
    """ROUGE of a run's summaries, from 0 to 1."""

    label: str
    trained_on: str
    texts: int = field(converter=int)
    rouge1: float = field(converter=float)
    rouge2: float = field(converter=float)
    rougeL: float = field(converter=float)  # noqa: N815 - as the measure is called
    rougeLsum: float = field(converter=float)  # noqa: N815

    def __str__(self) -> str:
        return ", ".join(f"{measure} {100 * getattr(self, measure):.2f}" for measure in MEASURES)


class Table3(LogicalMatrix[SummaryRow]):
    """The rows of the table, with several seeds each; all read the same ids, and plain ones leave them.

    The data are the folder of DialogSum.
    """

    row = SummaryRow
    learns = "summarise"
    untrained = SMOKE
    changed: ClassVar[Mapping[str, Any]] = {
        SMOKE[0]: ("bart-base", _SMALL), SMOKE[1]: ("logical-bart-base", _SMALL),
    }  # fmt: skip

    def places(self) -> Mapping[str, Any]:
        """The files.

        Raises:
            TaskError: one is not there.
        """
        data, test = (str(file_of(Path(self.request.data), split)) for split in (self.scale.read, "test"))
        return {**super().places(), "task.data": data, "task.test_data": test}

    def task_identity(self, name: str, task: AnyTask) -> Mapping[str, Any]:
        """Which files they are counts, wherever they lie."""
        return {**super().task_identity(name, task), "data": self.scale.read, "test_data": "test"}

    def measure(
        self, cell: Cell, trained: TrainResult, data: SummaryData, before: Sequence[SummaryRow]
    ) -> Iterator[SummaryRow]:
        """One row: ROUGE on the test file."""
        found = self.task.metrics(trained.model, data, "test")
        yield SummaryRow(
            **self.facts(cell, trained),
            **{measure: round(found[measure], 5) for measure in MEASURES},
            trained_on=self.scale.read,
            texts=self.task.options.examples or len(data.splits["test"].rows),
        )

    def table(self, rows: Sequence[SummaryRow]) -> FigureTable:
        """ROUGE by row, beside the paper's."""
        measures = dict(zip(COLUMNS, MEASURES, strict=True))
        (texts,) = {row.texts for row in rows}
        (read,) = {row.trained_on for row in rows}
        smoke = ["A smoke test: it shows that everything runs, and nothing about the method."] * (
            read == "dev"
        )
        score = f"ROUGE F1 in %, the mean over a dialogue's references; {self.over_seeds}"
        return self.comparison_table(
            rows,
            COLUMNS,
            lambda label, column: [
                100 * getattr(row, measures[column]) for row in rows if row.label == label
            ],
            PAPER,
            labels=PAPER,
            name="table3",
            title="Logical Transformers, Table 3: summaries of DialogSum",
            about=f"Trained on the {read} file, evaluated on {texts:,} test dialogues with their references.",
            facts=[*smoke, f"{score}, after {self.lengths(rows)} steps."],
            published="the published models",
            unit="ROUGE F1 (%)",
            digits=2,
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


TABLE3 = TableExperiment(
    name="logical/table3",
    title="Logical Transformers, Table 3: summaries, plain and with logical embeddings",
    rows=SMOKE,
    more=("BART-base", "Logical-BART-base", *PAPER),
    columns=COLUMNS,
    folder="runs/dialogsum",
    matrix=Table3,
    sizes=SCALES,
)
