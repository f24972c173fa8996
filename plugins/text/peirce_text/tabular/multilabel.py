"""The task `multilabel`: texts of a table, or pairs of them, with any number of labels each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from torch import Tensor

from peirce.errors import TaskError
from peirce.model import Model, PlainRows
from peirce.parts import plain_sigmoid
from peirce_text.plain import plain_f1, plain_ids, plain_mean
from peirce_text.reading import Example
from peirce_text.samples import DOES, WHO, sentence, write_tables
from peirce_text.tabular.columns import check_classes, class_name, list_classes, sort_classes, usual_column
from peirce_text.tabular.lists import is_list, items
from peirce_text.tabular.scores import LabelCounts
from peirce_text.tabular.texts import TextTable, TextTableOptions
from peirce_text.tasks import TRAIN, TextClassData
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
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """Pairs, of which some have no label, and some have one twice."""
        rows = [{**row, "other": f"It is {i}."} for i, row in enumerate(cls.example_rows())]
        odd = [{**rows[0], "topics": []}, {**rows[1], "topics": ["cow", "cow", ""]}]
        files = write_tables(folder, pairs=[*rows[:20], *odd])
        return [{"data": files["pairs"], "text": "text", "pair": "other", "label": "topics", "test_data": ""}]

    def reference(self, data: TextClassData, split: str) -> list[dict[str, Any]]:
        """Texts, or pairs, with 1 for each label that they have."""
        names = sorted({name for row in self.plain_rows(TRAIN) for name in row["topics"] if name})
        found = []
        for row in self.plain_rows(split):
            texts = [row["text"], *([row[self.options.pair]] if self.options.pair else [])]
            ids = plain_ids(data.tokenizer, *texts, length=self.options.length)
            found.append({**ids, "labels": [int(name in row["topics"]) for name in names]})
        return found

    def reference_settings(self, data: TextClassData) -> Mapping[str, Any]:
        """A head with the labels, and for pairs two token types."""
        types = {"model.input.token_types": 2} if self.options.pair else {}
        head = {"use": "multilabel", "classes": len({*WHO, *DOES})}
        return {**super().reference_settings(data), **types, "model.heads": [head]}

    def reference_loss(self, rows: PlainRows, outputs: PlainRows) -> float:
        """The mean of -ln of the probability that each label is there, or is not."""
        both = zip(rows, self.plain_scores(outputs), strict=True)
        pairs = [pair for row, scores in both for pair in zip(row["labels"], scores, strict=True)]
        return plain_mean([-math.log(plain_sigmoid(score if label else -score)) for label, score in pairs])

    def reference_metrics(
        self, data: TextClassData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """F1 over all labels, its mean over labels, and the share of rows without a mistake."""
        right = [row["labels"] for row in rows]
        given = [[int(score > 0) for score in scores] for scores in self.plain_scores(outputs)]
        by_label = zip(zip(*right, strict=True), zip(*given, strict=True), strict=True)
        return {
            "micro_f1": plain_f1(*([each for row in rows for each in row] for rows in (right, given))),
            "macro_f1": plain_mean([plain_f1(*both) for both in by_label]),
            "exact": plain_mean([a == b for a, b in zip(right, given, strict=True)]),
        }

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
