"""The task `regress`: texts of a table, or pairs of them, each with a number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from peirce.errors import TaskError
from peirce.model import Model
from peirce_text.reading import Example
from peirce_text.samples import sentence
from peirce_text.tabular.columns import NUMBERS, number_in, usual_column
from peirce_text.tabular.scores import Errors, Measures
from peirce_text.tabular.texts import TextTable, TextTableOptions
from peirce_text.tasks import TextClassData

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
