"""The task `multilabel`: texts of a table, or pairs of them, with any number of labels each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from torch import Tensor

from peirce.errors import TaskError
from peirce.model import Model
from peirce_text.reading import Example
from peirce_text.samples import DOES, WHO, sentence
from peirce_text.tabular.columns import check_classes, class_name, list_classes, sort_classes, usual_column
from peirce_text.tabular.lists import is_list, items
from peirce_text.tabular.scores import LabelCounts
from peirce_text.tabular.texts import TextTable, TextTableOptions
from peirce_text.tasks import TextClassData
from peirce_text.text.encoding import Ints


@frozen(kw_only=True)
class MultiLabelOptions(TextTableOptions):
    """What is read.

    Args:
        label: the column of the labels: a list, or a text with spaces between them; if empty, the one called `labels`,
            `tags`, `topics` or the like.
    """


class MultiLabel(TextTable[MultiLabelOptions]):
    """Which labels has a text, or a pair of texts? Each has any number of them. Learned from a table of the user's."""

    name = "multilabel"
    source = "BERT (Devlin et al., 2018), Section 4.1, with a sigmoid for each label"
    Options = MultiLabelOptions
    head = "multilabel"
    role = "list"

    @classmethod
    def example_rows(cls) -> list[dict[str, Any]]:
        """Sentences labelled by whom they are about and what these do."""
        texts = [sentence(i) for i in range(40)]
        return [{"text": text, "topics": [each for each in (*WHO, *DOES) if each in text]} for text in texts]

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """A text beside lists, and no words."""
        listed = is_list(row.get(usual_column(row, cls.role)))
        return super().fits(row) and listed and not usual_column(row, "tokens")

    def label_of(self, value: Any, where: str, split: str) -> tuple[str, ...]:
        """The labels; none where the cell is empty."""
        names = (class_name(each, where) for each in items(value, where))
        return tuple(
            dict.fromkeys(self.known_class(name, where, split) for name in names if name is not None)
        )

    def learn(self, examples: Sequence[Example], where: str) -> str:
        """The names of the labels."""
        self.classes = sort_classes(self.numbers)
        self.numbers = {name: number for number, name in enumerate(self.classes)}
        count = sum(len(each.note) for each in examples)
        if len(self.classes) < 2 or len(self.classes) > max(20, count // 2):
            raise TaskError(
                f"{where} has {len(self.classes):,} different labels in {len(examples):,} rows, "
                f"{'too few' if len(self.classes) < 2 else 'too many'} to learn; name the column of the labels with "
                "task.label"
            )
        check_classes(self.classes, where)
        return list_classes(self.classes, "labels", count)

    def counted_of(self, label: Any) -> Sequence[str]:
        """The labels."""
        names: Sequence[str] = label
        return names

    def labels_of(self, examples: Sequence[Example]) -> Ints:
        """int64 [n, classes], 1 for each label of a row."""
        found = np.zeros((len(examples), len(self.classes)), np.int64)
        for row, each in enumerate(examples):
            found[row, [self.numbers[name] for name in each.note]] = 1
        return found

    def head_table(self, data: TextClassData) -> dict[str, Any]:
        """A head with the labels."""
        return {"use": self.head, "classes": len(data.classes)}

    def choose(self, batch: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> Tensor:
        """bool [b, classes], the labels that are more probable than not."""
        return outputs[f"{self.head}_logits"] > 0

    def measure(self, model: Model, data: TextClassData, split: str) -> LabelCounts:
        """How often each label is found on a split."""
        right = self.part(data, split).labels
        return LabelCounts.of(data.classes, right, self.predict(model, data, split))
