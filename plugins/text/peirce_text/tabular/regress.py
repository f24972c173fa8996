"""The task `regress`: texts of a table, or pairs of them, each with a number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from peirce.errors import TaskError
from peirce.model import Model, PlainRows
from peirce_text.plain import plain_correlation, plain_ids, plain_mean, plain_ranks, plain_table
from peirce_text.reading import Example
from peirce_text.samples import sentence, write_tables
from peirce_text.tabular.columns import NUMBERS, number_in, usual_column
from peirce_text.tabular.scores import Errors, Measures
from peirce_text.tabular.texts import TextTable, TextTableOptions
from peirce_text.tasks import TRAIN, TextClassData

OptionsT = TypeVar("OptionsT", bound=TextTableOptions)


class NumberTable(TextTable[OptionsT], Generic[OptionsT]):
    """A task on texts of a table, or on pairs of them, each with a number that a head predicts."""

    @abstractmethod
    def number_of(self, value: Any, where: str) -> float:
        """The number that a value is, which is not empty.

        Raises:
            TaskError: it is none that the task takes.
        """

    def label_of(self, value: Any, where: str, split: str) -> float | None:
        """The number; None where there is none."""
        empty = value is None or (isinstance(value, str) and not value.strip()) or value != value
        return None if empty else self.number_of(value, where)

    def labels_of(self, examples: Sequence[Example]) -> NDArray[np.float32]:
        """float32 [n]."""
        return np.array([each.note for each in examples], np.float32)

    def head_table(self, data: TextClassData) -> dict[str, Any]:
        """A head for a number."""
        return {"use": self.head, "classes": 1, "problem": "regression"}

    def choose(self, batch: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> Tensor:
        """[b], the number."""
        return outputs[f"{self.head}_logits"][:, 0].double()


class Regress(NumberTable[TextTableOptions]):
    """Which number has a text, or a pair of texts? Learned from a table of the user's."""

    name = "regress"
    source = "BERT (Devlin et al., 2018), Section 4.1, as it grades pairs of STS-B"
    Options = TextTableOptions
    role = "number"
    center, scale = 0.0, 1.0

    @classmethod
    def example_rows(cls) -> list[dict[str, Any]]:
        """Sentences with stars for whom they are about."""
        return [{"text": sentence(i), "stars": f"{1 + i % 4 / 2}"} for i in range(40)]

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """Pairs, of which some have no number."""
        rows = [{**row, "other": f"It is {i}."} for i, row in enumerate(cls.example_rows())]
        odd = [{**rows[0], "stars": each} for each in (None, "", " ")]
        files = write_tables(folder, pairs=[*odd, *rows[:20]])
        return [{"data": files["pairs"], "text": "text", "pair": "other", "label": "stars", "test_data": ""}]

    def reference(self, data: TextClassData, split: str) -> list[dict[str, Any]]:
        """Texts, or pairs, with their numbers."""
        found = []
        for row in self.plain_rows(split):
            texts = [row["text"], *([row[self.options.pair]] if self.options.pair else [])]
            ids = plain_ids(data.tokenizer, *texts, length=self.options.length)
            found.append({**ids, "labels": float(row["stars"])})
        return found

    def plain_unit(self) -> tuple[float, float]:
        """The mean of the training numbers and of those kept aside, and how far they are apart."""
        files = self.options.files
        rows = [row for row in plain_table(files[TRAIN]) if str(row["stars"] or "").strip()]
        numbers = [float(row["stars"]) for row in rows]
        mean = plain_mean(numbers)
        return mean, plain_mean([(each - mean) ** 2 for each in numbers]) ** 0.5

    def reference_settings(self, data: TextClassData) -> Mapping[str, Any]:
        """A head for a number in the unit of all numbers, and for pairs two token types."""
        types = {"model.input.token_types": 2} if self.options.pair else {}
        center, scale = self.plain_unit()
        head = {
            "use": "classification", "classes": 1, "problem": "regression", "center": center, "scale": scale,
        }  # fmt: skip
        return {**super().reference_settings(data), **types, "model.heads": [head]}

    def reference_loss(self, rows: PlainRows, outputs: PlainRows) -> float:
        """The mean square of how far off predictions are, in that unit."""
        both, (_, scale) = zip(rows, self.plain_scores(outputs), strict=True), self.plain_unit()
        return plain_mean([((scores[0] - row["labels"]) / scale) ** 2 for row, scores in both])

    def reference_metrics(
        self, data: TextClassData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """How far predictions are off, and how they go with the numbers."""
        right, given = [row["labels"] for row in rows], [scores[0] for scores in self.plain_scores(outputs)]
        off = [a - b for a, b in zip(right, given, strict=True)]
        mean, square = plain_mean(right), plain_mean([each**2 for each in off])
        spread = plain_mean([(each - mean) ** 2 for each in right])
        return {
            "mae": plain_mean(list(map(abs, off))),
            "rmse": square**0.5,
            "r2": 1 - square / spread if spread else 0.0,
            "pearson": plain_correlation(right, given) if spread else 0.0,
            "spearman": plain_correlation(plain_ranks(right), plain_ranks(given)) if spread else 0.0,
        }

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """A text, or two, and a column of numbers that is called so."""
        return super().fits(row) and usual_column(row, cls.role).lower() in NUMBERS

    def number_of(self, value: Any, where: str) -> float:
        """The number."""
        if (number := number_in(value)) is None:
            raise TaskError(
                f"{where} holds {value!r:.60}, and must hold a number; name another column with task.label, or learn "
                "classes with --task classify"
            )
        return number

    def learn(self, examples: Sequence[Example], where: str) -> str:
        """What the numbers lie around, and how far apart: the network learns them in that unit."""
        numbers = np.array([each.note for each in examples])
        if len(numbers) and not np.ptp(numbers):
            raise TaskError(
                f"{where} has only the number {numbers[0]:g}; name the column of the numbers with task.label"
            )
        if len(numbers):
            self.center, self.scale = (float(f"{each:.6g}") for each in (numbers.mean(), numbers.std()))
        return f"numbers of mean {self.center:g} and standard deviation {self.scale:g}"

    def head_table(self, data: TextClassData) -> dict[str, Any]:
        """A head for a number, with what the numbers lie around."""
        return {**super().head_table(data), "center": self.center, "scale": self.scale}

    def measure(self, model: Model, data: TextClassData, split: str) -> Measures:
        """How far the predictions of a split are off."""
        return Errors(self.part(data, split).labels.astype(np.float64), self.predict(model, data, split))
