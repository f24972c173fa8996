"""The task `classify`: texts of a table, or pairs of them, in the classes that a column names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from attrs import evolve, frozen
from torch import Tensor
from torch.nn import functional as F

from peirce.algebra import at_least_float32
from peirce.errors import TaskError
from peirce.model import Model, PlainRows
from peirce.parts import one_of, plain_cross_entropy
from peirce_text.plain import plain_best, plain_f1, plain_ids, plain_mean
from peirce_text.reading import Example, Row
from peirce_text.samples import WHO, sentence, write_tables
from peirce_text.tabular.baseline import baseline_sentences
from peirce_text.tabular.columns import (
    NUMBERS,
    check_classes,
    class_name,
    list_classes,
    sort_classes,
    usual_column,
)
from peirce_text.tabular.lists import is_list
from peirce_text.tabular.measures import Confusion
from peirce_text.tabular.streams import STREAM
from peirce_text.tabular.texts import TextTable, TextTableOptions
from peirce_text.tasks import TRAIN, VALID, TextClassData, outputs_of
from peirce_text.text.encoding import EncodedTexts, Ints
from peirce_text.text.tokenizer import Tokenizer


@frozen(kw_only=True)
class ClassifyOptions(TextTableOptions):
    """What is read.

    Args:
        label: the column of the class; if empty, the one that is called so, or `class`, `category` and the like.
        classes: every class in its order, such as `["poor", "fair", "good"]` of grades; if empty, those of the rows,
            numbers by their size and words as the alphabet has them.
        weights: `balanced` lets every class count the same in training, however many rows it has.
        confusion: a file for the confusion matrix, .png, .svg or .pdf, drawn with each evaluation; empty for none.
    """

    classes: tuple[str, ...] = ()
    weights: Literal["none", "balanced"] = one_of("none", "balanced")
    confusion: str = ""


class Classify(TextTable[ClassifyOptions]):
    """Which class is a text in, or a pair of texts? Learned from a table of the user's."""

    name = "classify"
    source = "BERT (Devlin et al., 2018), Section 4.1, for the head and the form of a pair"
    Options = ClassifyOptions
    # Where the loss judges, training may replace what it begins with by a model that is less often right.
    settings: ClassVar[Mapping[str, Any]] = {**TextTable.settings, "train.monitor": "accuracy"}
    example_options: ClassVar[Mapping[str, Any]] = {"weights": "balanced"}

    @classmethod
    def example_rows(cls) -> list[dict[str, Any]]:
        """Sentences by whom they are about, fewer of one than of the others."""
        return [{"text": sentence(i), "who": WHO[i % 4]} for i in range(48) if i % 4 or i % 8]

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """Pairs; classes that no row has, and one that a single row has; rows that cannot be used."""
        rows = [{**row, "other": f"It is {i}."} for i, row in enumerate(cls.example_rows())]
        files = write_tables(
            folder, pairs=rows, rare=[*rows[:20], {"text": "The fox sat.", "who": "fox", "other": "It is."}],
            holes=[*rows, {**rows[0], "text": " "}, {**rows[0], "who": ""}],
        )  # fmt: skip
        listed = ("hen", "dog", "cat", "cow", "fox")
        return [
            {"data": files["pairs"], "test_data": "", "text": "text", "pair": "other", "label": "who"},
            {
                "data": files["rare"],
                "valid_data": files["pairs"],
                "test_data": "",
                "classes": listed,
                "label": "who",
            },
            {"data": files["holes"], "classes": listed, "label": "who"},
        ]

    def reference(self, data: TextClassData, split: str) -> list[dict[str, Any]] | None:
        """Texts, or pairs, with the numbers of their classes; of balanced ones what a row of each weighs."""
        options, of_all = self.options, [row["who"] for row in self.plain_rows(TRAIN, "who")]
        names = options.classes or sorted({*of_all})
        weights = {name: len(of_all) / (len({*of_all}) * of_all.count(name)) for name in of_all}
        found = []
        for row in self.plain_rows(split, "who"):
            texts = [row["text"], *([row[options.pair]] if options.pair else [])]
            ids = plain_ids(data.tokenizer, *texts, length=options.length)
            found.append({**ids, "labels": names.index(row["who"])})
            if split == TRAIN and options.weights == "balanced":
                found[-1]["weights"] = weights[row["who"]]
        return found or None

    def reference_settings(self, data: TextClassData) -> Mapping[str, Any]:
        """A head with the classes, and for pairs two token types."""
        types = {"model.input.token_types": 2} if self.options.pair else {}
        problem, classes = "pair" if self.options.pair else "single", len(self.options.classes) or len(WHO)
        head = {"use": "classification", "classes": classes, "problem": problem}
        return {**super().reference_settings(data), **types, "model.heads": [head]}

    def reference_loss(self, rows: PlainRows, outputs: PlainRows) -> float:
        """The mean cross-entropy, each by its weight."""
        losses = [
            row.get("weights", 1.0) * plain_cross_entropy([scores], [row["labels"]])
            for row, scores in zip(rows, self.plain_scores(outputs), strict=True)
        ]
        return plain_mean(losses)

    def reference_metrics(
        self, data: TextClassData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """Accuracy, and the mean of the F1 of all classes."""
        scores = self.plain_scores(outputs)
        given, right = list(map(plain_best, scores)), [row["labels"] for row in rows]
        f1 = [plain_f1([a == k for a in right], [b == k for b in given]) for k in range(len(scores[0]))]
        return {**super().reference_metrics(data, split, rows, outputs), "macro_f1": plain_mean(f1)}

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """A text, or two, and a class: no number by its name, no list, and no text for a query."""
        name = usual_column(row, "label")
        ranked = usual_column(row, "query").lower() == "query" and usual_column(row, "document")
        return super().fits(row) and name.lower() not in NUMBERS and not is_list(row[name]) and not ranked

    def rows(self) -> Mapping[str, Iterator[Row]]:
        """The rows of each split; classes that the options list are known before the first."""
        found = super().rows()
        self.numbers.update(dict.fromkeys(self.options.classes, 0))
        return found

    def label_of(self, value: Any, where: str, split: str) -> str | None:
        """The name of the class."""
        name = class_name(value, where)
        return name if name is None else self.known_class(name, where, split)

    def learn(self, examples: Sequence[Example], where: str) -> str:
        """The names of the classes; one alone is refused, and so are about as many as rows."""
        names = {each.note for each in examples}
        given, count = self.options.classes, len(examples)
        if unlisted := [name for name in sort_classes(names) if given and name not in given]:
            raise TaskError(
                f"{where} has the class {unlisted[0]!r}, which task.classes does not list; add it there"
            )
        self.classes = tuple(dict.fromkeys(given)) or sort_classes(names)
        self.numbers = {name: number for number, name in enumerate(self.classes)}
        if count and len(names) < 2:
            raise TaskError(
                f"{where} has only the class {self.classes[0]!r}; name the column of the classes with task.label"
            )
        if len(names) > max(20, count // 2):
            raise TaskError(
                f"{where} has {len(names):,} different values in {count:,} rows, too many for classes; name the column "
                "of the classes with task.label, or learn numbers with --task regress"
            )
        check_classes(self.classes, where)
        return list_classes(self.classes, "classes", count)

    def counted_of(self, label: Any) -> Sequence[str]:
        """The class."""
        return (label,)

    def strata_of(self, examples: Sequence[Example]) -> Ints:
        """The classes."""
        return self.labels_of(examples)

    def labels_of(self, examples: Sequence[Example]) -> Ints:
        """int64 [n]."""
        return np.array([self.numbers[each.note] for each in examples], np.int64)

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Example]) -> EncodedTexts:
        """The texts as ids; in training with `weights`, float32 [n], of mean one, if classes are balanced."""
        encoded = super().encode(tokenizer, split, examples)
        if split not in (TRAIN, STREAM) or self.options.weights == "none":
            return encoded
        if split == TRAIN:  # of which a stream's is a sample, and encoded first
            counts = np.bincount(encoded.labels, minlength=len(self.classes))
            self._weights = len(encoded) / ((counts > 0).sum() * np.maximum(1, counts))
        weights = self._weights[encoded.labels].astype(np.float32)
        return evolve(encoded, columns={**encoded.columns, "weights": weights})

    def head_table(self, data: TextClassData) -> dict[str, Any]:
        """A head for texts, or for pairs."""
        problem = "pair" if "pair" in self.columns else "single"
        return {**super().head_table(data), "problem": problem}

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The mean cross-entropy, of examples by their weights if they have any."""
        if "weights" not in batch:
            return super().loss(model, batch)
        logits = at_least_float32(outputs_of(model, batch)[f"{self.head}_logits"])
        return (F.cross_entropy(logits, batch["labels"], reduction="none") * batch["weights"]).mean()

    def measure(self, model: Model, data: TextClassData, split: str) -> Confusion:
        """How often a model predicts each class as which, on a split."""
        right = self.part(data, split).labels
        return Confusion.of(data.classes, right, self.predict(model, data, split))

    def remarks(self, model: Model, data: TextClassData, split: str) -> tuple[str, ...]:
        """The classes, and what a majority and a bag of words give."""
        parts = (self.kept.get(name, ()) for name in (TRAIN, split if split in self.kept else VALID))
        return (*super().remarks(model, data, split), *baseline_sentences(*parts))
