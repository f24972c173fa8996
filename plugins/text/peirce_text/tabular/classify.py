"""The task `classify`: texts of a table, or pairs of them, in the classes that a column names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from peirce.algebra import at_least_float32
from peirce.errors import TaskError
from peirce.model import Model
from peirce.parts import one_of
from peirce_text.progress import print_line
from peirce_text.reading import Example, Row
from peirce_text.samples import WHO, sentence, write_csv
from peirce_text.tabular.columns import (
    check_classes,
    class_name,
    class_number,
    column,
    list_classes,
    sort_classes,
    usual_column,
    usual_pair,
)
from peirce_text.tabular.measures import Confusion
from peirce_text.tabular.tables import TableOptions, TableTask
from peirce_text.tasks import TRAIN, TextClassData, TextClasses, outputs_of
from peirce_text.text.encoding import EncodedTexts
from peirce_text.text.tokenizer import Tokenizer


@frozen(kw_only=True)
class ClassifyOptions(TableOptions):
    """What is read.

    Args:
        text: the column of the text; if empty, the one that is called so, or `sentence`, `review` and the like.
        pair: the column of a second text; if empty and `text` is too, that of two such as `sentence1` and `sentence2`.
        label: the column of the class; if empty, the one that is called so, or `class`, `category` and the like.
        weights: `balanced` lets every class count the same in training, however many rows it has.
    """

    text: str = ""
    pair: str = ""
    label: str = ""
    weights: Literal["none", "balanced"] = one_of("none", "balanced")


class Classify(TableTask[ClassifyOptions, Example, EncodedTexts], TextClasses[ClassifyOptions]):
    """Which class is a text in, or a pair of texts? Learned from a table of the user's."""

    name = "classify"
    source = "BERT (Devlin et al., 2018), Section 4.1, for the head and the form of a pair"
    Options = ClassifyOptions
    examples = ("my.csv", "OWNER/NAME")
    most_left_out = 0.5
    repair = "give every row a text and a label, or name other columns with task.text and task.label"

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Sentences by whom they are about, fewer of one than of the others."""
        rows = [{"text": sentence(i), "who": WHO[i % 4]} for i in range(48) if i % 4 or i % 8]
        write_csv(folder / "own.csv", rows)
        write_csv(folder / "test.csv", rows[:6])
        files = {"data": str(folder / "own.csv"), "test_data": str(folder / "test.csv")}
        return {**files, "vocabulary": 80, "length": 16, "batch_size": 4, "weights": "balanced"}

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """A text, or two, and a class."""
        names = usual_pair(row) or (usual_column(row, "text"),)
        return all(isinstance(row.get(name), str) for name in names) and bool(usual_column(row, "label"))

    def rows(self) -> Mapping[str, Iterator[Row]]:
        """The rows of each split, after a look at the first for the columns."""
        options, (first, found) = self.options, self.open_rows()
        pair = () if options.text or options.pair else usual_pair(first.values)
        text, second = pair or (column(first, "text", options.text), options.pair)
        roles = {"text": text, "pair": second, "label": column(first, "label", options.label)}
        self.columns = {role: name for role, name in roles.items() if name}
        if second:
            first.value(second)
        if len(set(self.columns.values())) < len(self.columns):
            raise TaskError(
                f"{first.file}: one column is named twice, {', '.join(self.columns.values())}; name the others with "
                "task.text, task.pair and task.label"
            )
        self.columns |= self.input_columns.roles(first, self.columns["label"])
        self._numbers: dict[str, int] = {}
        return found

    def example_of(self, row: Row, split: str) -> Example | str:
        """The texts, with the name of the class as the note."""
        texts = [row.value(self.columns[role]) for role in ("text", "pair") if role in self.columns]
        name = self.columns["label"]
        label = class_name(row.value(name), f"{row.where}: column {name!r}")
        if label is None:
            return "it has no label"
        for text in texts:
            if text is None or (isinstance(text, str) and not text.strip()):
                return "its text is empty"
            if not isinstance(text, str):
                return f"it has {text!r:.40} and needs a text"
        if split == TRAIN:  # which is read first
            self._numbers[label] = 0
        class_number(label, self._numbers, row.where)
        return Example(tuple(texts), None, label, self.input_columns.of_row(row))

    def read(self) -> dict[str, Sequence[Example]]:
        """The rows of each split; those that are not there by themselves are taken from the training rows.

        Raises:
            TaskError: there are fewer than two classes, or about as many as rows.
        """
        read = super().read()
        names = {each.note for each in read[TRAIN]}
        self.classes = sort_classes(names)
        self._numbers = {name: number for number, name in enumerate(self.classes)}
        label, count = self.columns["label"], len(read[TRAIN])
        if count and len(names) < 2:
            raise TaskError(
                f"{self.source_of(TRAIN)}: column {label!r} has only the class {self.classes[0]!r}; "
                "name the column of the classes with task.label"
            )
        if len(names) > max(20, count // 2):
            raise TaskError(
                f"{self.source_of(TRAIN)}: column {label!r} has {len(names):,} different values in {count:,} rows, too "
                "many for classes; name the column of the classes with task.label"
            )
        check_classes(self.classes, f"{self.source_of(TRAIN)}: column {label!r}")
        roles = ", ".join(f"{role} from column {name!r}" for role, name in self.columns.items())
        print_line(f"{self.name}: {roles}; {list_classes(self.classes, 'classes', count)}")
        found = self.split_off(read, self.labels_of(read[TRAIN]))
        counts = {split: Counter(each.note for each in examples) for split, examples in found.items()}
        self.print_checks(counts, {split: ((e.texts, e.note) for e in each) for split, each in found.items()})
        return found

    def labels_of(self, examples: Sequence[Example]) -> NDArray[Any]:
        """int64 [n]."""
        return np.array([self._numbers[each.note] for each in examples], np.int64)

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Example]) -> EncodedTexts:
        """The texts as ids; in training with `weights`, float32 [n], of mean one, if classes are balanced."""
        encoded = super().encode(tokenizer, split, examples)
        if split == TRAIN and self.options.weights == "balanced":
            counts = np.bincount(encoded.labels, minlength=len(self.classes))
            weights = len(encoded) / ((counts > 0).sum() * np.maximum(1, counts))
            columns = {**encoded.columns, "weights": weights[encoded.labels].astype(np.float32)}
            encoded = evolve(encoded, columns=columns)
        rows = [each.inputs for each in examples]
        return self.input_columns.feed(evolve(encoded, notes=()), rows)

    def overrides(self, data: TextClassData) -> Mapping[str, Any]:
        """The vocabulary, two token types for pairs, and the head with its classes."""
        types = "model.input.token_types"
        return {
            key: value
            for key, value in super().overrides(data).items()
            if key != types or "pair" in self.columns
        }

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

    def confusion_of(self, model: Model, data: TextClassData, split: str) -> Confusion:
        """How often a model predicts each class as which, on a split."""
        right = self.part(data, split).labels
        return Confusion.of(data.classes, right, self.predict(model, data, split))
