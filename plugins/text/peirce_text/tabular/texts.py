"""What tasks on the texts of a table share: the columns of a text, of a second one, and of what is predicted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from attrs import evolve, frozen
from numpy.typing import NDArray

from peirce.errors import TaskError
from peirce_text.progress import print_line
from peirce_text.reading import Example, Row
from peirce_text.tabular.checks import Labelled
from peirce_text.tabular.columns import class_number, column, usual_column, usual_pair
from peirce_text.tabular.tables import TableOptions, TableTask
from peirce_text.tasks import TRAIN, TextClassData, TextClasses
from peirce_text.text.encoding import EncodedTexts, Ints
from peirce_text.text.tokenizer import Tokenizer


@frozen(kw_only=True)
class TextTableOptions(TableOptions):
    """What is read.

    Args:
        text: the column of the text; if empty, the one that is called so, or `sentence`, `review` and the like.
        pair: the column of a second text; if empty and `text` is too, that of two such as `sentence1` and `sentence2`.
        label: the column of what is predicted; if empty, the one that is usual.
    """

    text: str = ""
    pair: str = ""
    label: str = ""


OptionsT = TypeVar("OptionsT", bound=TextTableOptions)


class TextTable(TableTask[OptionsT, Example, EncodedTexts], TextClasses[OptionsT], Generic[OptionsT]):
    """A task on texts of a table, or on pairs of them, each with something that another column says.

    A task says how that column is read, `label_of` and `learn`; what of it the loss is given, `labels_of`; which head
    predicts it; and how predictions are measured.

    Attributes:
        role: the role of that column, which tells its usual names.
        numbers: the number of each class by its name, where labels name classes.
    """

    examples = ("my.csv", "OWNER/NAME")
    most_left_out = 0.5
    numbers: dict[str, int]
    repair = "give every row a text and a label, or name other columns with task.text and task.label"
    role: ClassVar[str] = "label"

    @abstractmethod
    def label_of(self, value: Any, where: str, split: str) -> Any:
        """What a value of the column says; None where it says nothing.

        Args:
            value: the value.
            where: its place, for errors.
            split: whose row it is in; the training split is read first.

        Raises:
            TaskError: the value is none of the column's kind.
        """

    @abstractmethod
    def learn(self, examples: Sequence[Example], where: str) -> str:
        """Take from the training rows what all labels depend on, such as the names of classes, and say it.

        Args:
            examples: each with its label as the note.
            where: the file and the column, for errors.

        Raises:
            TaskError: there is nothing to learn.
        """

    @abstractmethod
    def labels_of(self, examples: Sequence[Example]) -> NDArray[Any]:
        """What the loss is given of each row, [n, ...]."""

    def known_class(self, name: str, where: str, split: str) -> str:
        """The name of a class, which other splits have only where the training split has it.

        Raises:
            TaskError: it has it not.
        """
        if split == TRAIN:
            self.numbers[name] = 0
        else:
            class_number(name, self.numbers, where)
        return name

    def strata_of(self, examples: Sequence[Example]) -> Ints | None:
        """int64 [n], what every split gets its share of; by default nothing."""
        return None

    def counted_of(self, label: Any) -> Sequence[str]:
        """The classes that a label names, which are counted before the first step; by default none."""
        return ()

    def text_columns(self, first: Row) -> tuple[str, ...]:
        """The columns of the texts, after a look at the first row."""
        options = self.options
        pair = () if options.text or options.pair else usual_pair(first.values)
        return pair or tuple(filter(None, (column(first, "text", options.text), options.pair)))

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """A text, or two, beside the column of the task's role."""
        names = usual_pair(row) or (usual_column(row, "text"),)
        return all(isinstance(row.get(name), str) for name in names) and bool(usual_column(row, cls.role))

    def rows(self) -> Mapping[str, Iterator[Row]]:
        """The rows of each split, after a look at the first for the columns."""
        first, found = self.open_rows()
        texts = self.text_columns(first)
        for name in texts:
            first.value(name)
        label = column(first, self.role, self.options.label, "--set label=COLUMN")
        self.columns = {**dict(zip(("text", "pair"), texts, strict=False)), "label": label}
        if len(set(self.columns.values())) < len(self.columns):
            raise TaskError(
                f"{first.file}: one column is named twice, {', '.join(self.columns.values())}; name the others with "
                "task.text, task.pair and task.label"
            )
        self.columns |= self.input_columns.roles(first, label)
        self.numbers = {}
        return found

    def example_of(self, row: Row, split: str) -> Example | str:
        """The texts, with the label as the note."""
        texts = [row.value(self.columns[role]) for role in ("text", "pair") if role in self.columns]
        name = self.columns["label"]
        label = self.label_of(row.value(name), f"{row.where}: column {name!r}", split)
        if label is None:
            return "it has no label"
        for text in texts:
            if text is None or (isinstance(text, str) and not text.strip()):
                return "its text is empty"
            if not isinstance(text, str):
                return f"it has {text!r:.40} and needs a text"
        return Example(tuple(texts), None, label, self.input_columns.of_row(row), row.number)

    def labelled(self, example: Example) -> Labelled:
        """The texts and the classes that the label names."""
        labels = tuple(self.counted_of(example.note))
        return Labelled(texts=example.texts, labels=labels, number=example.number, inputs=example.inputs)

    def examples_of(self, rows: Iterator[Row], split: str) -> Iterator[tuple[str, Example | str]]:
        """The place of each row, and what it becomes, or why it is left out."""
        return ((row.where, self.example_of(row, split)) for row in rows)

    def names_in(self, row: Row) -> Iterable[str]:
        """The classes that the row's label names; none of a row that is left out."""
        example = self.example_of(row, TRAIN)
        return () if isinstance(example, str) else self.counted_of(example.note)

    def read(self) -> dict[str, Sequence[Example]]:
        """The rows of each split; those that are not there by themselves are taken from the training rows.

        Raises:
            TaskError: the training rows have nothing to learn.
        """
        read = super().read()
        learned = self.learn(read[TRAIN], f"{self.source_of(TRAIN)}: column {self.columns['label']!r}")
        roles = ", ".join(f"{role} from column {name!r}" for role, name in self.columns.items())
        print_line(f"{self.name}: {roles}; {learned}")
        found = self.split_off(read, self.strata_of(read[TRAIN]))
        self.print_checks(found)
        return found

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Example]) -> EncodedTexts:
        """The texts as ids, with a label each, and the further inputs of the model."""
        encoded = evolve(super().encode(tokenizer, split, examples), notes=())
        return self.input_columns.feed(encoded, [each.inputs for each in examples])

    def overrides(self, data: TextClassData) -> Mapping[str, Any]:
        """The vocabulary, two token types for pairs, and the head."""
        types = "model.input.token_types"
        return {
            key: value
            for key, value in super().overrides(data).items()
            if key != types or "pair" in self.columns
        }
