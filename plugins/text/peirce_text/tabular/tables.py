"""What tasks on tables share: where tables lie, how they are split, and remarks on the classes."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from attrs import evolve, field, frozen, validators
from torch import Tensor

from peirce.errors import TaskError
from peirce.extras import check_picture
from peirce.model import Model, Start
from peirce.parts import one_of
from peirce_text.plain import plain_table
from peirce_text.progress import print_line
from peirce_text.reading import Row, parquet_files, parquet_folder, parquet_size, read_rows
from peirce_text.samples import write_tables
from peirce_text.starts import default_start
from peirce_text.tabular.checks import Counts, Labelled, class_remarks, count_lines, text_remarks
from peirce_text.tabular.columns import first_row, is_file, peek, rows_of, split_rows
from peirce_text.tabular.diagnosis import MOST_CLASSES, Diagnosis, diagnose
from peirce_text.tabular.inputs import InputColumns
from peirce_text.tabular.measures import Confusion
from peirce_text.tabular.predictor import LocalPredictor, TorchRunner
from peirce_text.tabular.scores import Measures
from peirce_text.tabular.streams import LARGE, SAMPLE, STREAM, Stream, StreamedBatch, digest
from peirce_text.tasks import TEST, TRAIN, VALID, EncodedT, ExampleT, FileOptions, TextData, TextTask
from peirce_text.text.encoding import Ints
from peirce_text.text.tokenizer import FILE, Tokenizer

LABELS = "labels.json"
"""The asset with the names of the classes, the columns that they were learned from, and the length of texts."""

MOST_KEPT = 10_000
"""About the most examples of a split that a report looks at."""
EXPLAINED = ("classification", "token_classification")
"""The heads whose models `peirce explain` and the report of a training explain."""


def _sample(examples: Sequence[Any]) -> Sequence[Any]:
    """All of some examples; of very many every second, third, ... one."""
    return examples[:: 1 + (len(examples) - 1) // MOST_KEPT]


def _measured_split(read: Mapping[str, Sequence[Any]]) -> str:
    """The split that a model is measured on."""
    return next(split for split in (TEST, VALID, TRAIN) if read.get(split))


def _share_option() -> Any:
    return field(default=0.1, validator=[validators.ge(0), validators.lt(1)])


@frozen(kw_only=True)
class TableOptions(FileOptions):
    """Where a table lies, and how it is divided.

    Args:
        data: what to train on: a .csv, .tsv, .jsonl, .parquet or .conll file, or a data set of the library `datasets`.
        valid_data: a file to choose by while training; if empty, rows of `data`.
        test_data: a file to evaluate on; if empty, rows of `data`.
        valid_share: how much of `data` is kept aside to choose by, where nothing else is there for it; 0 for nothing.
        test_share: the share to evaluate on; if it is 0 too, the validation rows are used.
        split_seed: which rows are kept aside.
        inputs: the column of each further input that a part of the model declares, by the name of the input: a number
            for each text, or in `tag` a list with one for each word.
        stream: whether training rows of a folder of Parquet files are read anew in each pass, as they are used: `yes`,
            `no`, or `auto`, which does where the folder unpacks to more than 1 GiB.
    """

    valid_share: float = _share_option()
    test_share: float = _share_option()
    split_seed: int = field(default=0, validator=validators.ge(0))
    inputs: Mapping[str, str] = field(factory=dict)
    stream: Literal["auto", "yes", "no"] = one_of("auto", "yes", "no")

    @property
    def hub(self) -> str:
        """The data set of the library `datasets`; empty where there are files."""
        return self.dataset or ("" if is_file(self.data) else self.data)


OptionsT = TypeVar("OptionsT", bound=TableOptions)


class TableTask(TextTask[OptionsT, ExampleT, EncodedT], Generic[OptionsT, ExampleT, EncodedT]):
    """A task on a table: its columns, its head, its loss and its measures are its own.

    Attributes:
        columns: the column of each role, known when the data have been read.
        input_columns: those of further inputs of the model.
        counted: what has a class.
        checks: what a reader of the scores must know of the data, a sentence each.
        counts: how often each class is in each split, of streams in those rows that are looked at.
        kept: examples of each split for the report, of large splits some.
        streams: whether the task can learn from rows as they are read.
        example_options: further options of `example_in`.
    """

    settings: ClassVar[Mapping[str, Any]] = {"train.epochs": 5, "train.evaluate_epochs": 1}
    missing = "name a file with task.valid_data or task.test_data"
    valid_for_test = True
    min_frequency = 1  # on 200 rows of TREC whole words are worth six points of accuracy
    counted: ClassVar[str] = "rows"
    checks: tuple[str, ...] = ()
    counts: Counts = MappingProxyType({})
    kept: Mapping[str, Sequence[Any]] = {}
    streams: ClassVar[bool] = True
    example_options: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    @abstractmethod
    def example_rows(cls) -> list[dict[str, Any]]:
        """Rows of a table, of which the first six are to test on."""

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """The `example_rows`."""
        rows = cls.example_rows()
        files = write_tables(folder, data=rows[6:], test_data=rows[:6])
        return {**files, "vocabulary": 80, "length": 16, "batch_size": 4, **cls.example_options}

    @classmethod
    @abstractmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """Whether the columns of a row are plainly those of the task."""

    @abstractmethod
    def measure(self, model: Model, data: TextData[EncodedT], split: str) -> Measures:
        """How well a model predicts a split; a `Confusion` is drawn where the options name a file for it."""

    @property
    def picture(self) -> str:
        """The file that the options name for a confusion matrix; empty for none."""
        return getattr(self.options, "confusion", "")

    def __init__(self, options: OptionsT) -> None:
        super().__init__(options)
        self.columns: dict[str, str] = {}
        self.input_columns = InputColumns(options.inputs)
        self._last: tuple[Model, str, Measures] | None = None
        self.stream: Stream | None = None
        self._aside: frozenset[bytes] = frozenset()

    def examples_of(self, rows: Iterator[Row], split: str) -> Iterator[tuple[str, ExampleT | str]]:
        """The place of each row, and what it becomes, or why it is left out; of streams, with the classes known."""
        raise NotImplementedError

    def names_in(self, row: Row) -> Iterable[str]:
        """What tells the classes of a row apart, so that a sample has all of them."""
        return ()

    def count_targets(self, examples: Sequence[ExampleT]) -> Mapping[str, int]:
        """How many targets each term of the loss has in examples, as `targets` says of their batch."""
        return {"loss": len(examples)}

    @classmethod
    def suits(cls, data: str) -> bool:
        """Whether the first row of a file or a data set has the columns of the task."""
        return cls.fits(first_row(data))

    @classmethod
    def columns_of(cls, data: str) -> Sequence[str]:
        """The columns of the first row."""
        return [str(name) for name in first_row(data)]

    @classmethod
    def start(cls) -> Start:
        """A local pretrained model, or `text-small`."""
        return default_start()

    def open_rows(self) -> tuple[Row, dict[str, Iterator[Row]]]:
        """The first training row, and the rows of each split that is there by itself, the training split first."""
        options = self.options
        if self.picture:
            check_picture(Path(self.picture), "a picture of the confusion", extra="peirce-text[train]")
        folder = parquet_folder(options.hub)
        streamed = self._is_streamed(folder)
        if folder is None:
            rows = rows_of(options.hub, options.files)
            first, rows[TRAIN] = peek(rows[TRAIN], self.source_of(TRAIN))
        else:
            found = Stream.splits(folder)
            first = next(found[TRAIN].read())
            rows = {split: each.read() for split, each in found.items()}
            if streamed:
                self.stream = found[TRAIN]
                rows = {split: self._sample(each, split) for split, each in found.items()}
                print_line(
                    f"{folder}: {self.stream.rows:,} rows are streamed; about {min(SAMPLE, self.stream.rows):,} of "
                    "them tell the classes, train the tokenizer, and give what is kept aside"
                )
        return first, rows | {
            split: read_rows(file) for split, file in options.files.items() if split != TRAIN
        }

    def _sample(self, stream: Stream, split: str) -> Iterator[Row]:
        """Some rows of a stream, of training rows with all classes; the columns are known when the first is read."""
        names = self.names_in if split == TRAIN else None
        yield from stream.sample(list(self.columns.values()), SAMPLE, self.options.split_seed, names)

    def _is_streamed(self, folder: Path | None) -> bool:
        """Whether the rows of the data, a folder of Parquet files or None, are streamed."""
        wish = self.options.stream
        if wish == "yes" and folder is None:
            raise TaskError("task.stream=yes is for a folder of .parquet files; give one, or leave it out")
        if wish == "yes" and not self.streams:
            raise TaskError(f"task.stream=yes: the task {self.name!r} reads all rows at once; leave it out")
        if folder is None or wish == "no" or not self.streams:
            return False
        return wish == "yes" or sum(parquet_size(folder / name)[1] for name in parquet_files(folder)) > LARGE

    def split_off(
        self, read: Mapping[str, Sequence[ExampleT]], classes: Ints | None = None
    ) -> dict[str, Sequence[ExampleT]]:
        """The splits that are there, and those that are taken from the training split.

        Args:
            read: the examples of each split that is there by itself.
            classes: the class of each training example, so that every split has its share of each.
        """
        shares = {VALID: self.options.valid_share, TEST: self.options.test_share}
        wanted = {split: share for split, share in shares.items() if share and split not in read}
        train = read[TRAIN]
        if not train:
            return dict(read)
        parts = split_rows(len(train), wanted, self.options.split_seed, classes)
        found = {**read, **{split: [train[row] for row in rows] for split, rows in parts.items()}}
        if self.stream is not None:
            aside = (each for split in wanted for each in found[split])
            self._aside = frozenset(digest(self.texts_of(each)) for each in aside)
            kept = [each for each in found[TRAIN] if digest(self.texts_of(each)) not in self._aside]
            lost = f"{len(found[TRAIN]) - len(kept):,} of {len(found[TRAIN]):,} rows that were looked at"
            if not kept:
                raise TaskError(
                    f"{self.source_of(TRAIN)}: {lost} have a text that is kept aside, since few different ones repeat; "
                    "name files with task.valid_data and task.test_data, or read all rows with task.stream=no"
                )
            if len(kept) < len(found[TRAIN]):
                print_line(f"{lost} have a text that is kept aside, and are not trained on")
            found[TRAIN] = kept
        return found

    def batches(
        self, data: TextData[EncodedT], split: str, seed: int, epoch: int
    ) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, of streamed rows without those whose texts are kept aside."""
        if self.stream is None or split != TRAIN:
            yield from super().batches(data, split, seed, epoch)
            return

        def encode(some: Sequence[ExampleT]) -> Mapping[str, Tensor]:
            encoded = self.encode(data.tokenizer, STREAM, some)
            return encoded.batch(np.arange(len(encoded.lengths)))

        rows = self.stream.read(list(self.columns.values()), np.random.default_rng([seed, epoch]))
        examples = (
            each
            for _, each in self.examples_of(rows, STREAM)
            if not isinstance(each, str) and digest(self.texts_of(each)) not in self._aside
        )
        while some := list(islice(examples, self.options.batch_size)):
            yield StreamedBatch(self.count_targets(some), partial(encode, some))

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The labels of a batch; a streamed one knows how many it has."""
        return batch.targets if isinstance(batch, StreamedBatch) else super().targets(batch)

    def print_checks(self, read: Mapping[str, Sequence[ExampleT]]) -> None:
        """Print what the splits show before the first step: rows by class, rare classes, texts that repeat."""
        labelled = {split: list(map(self.labelled, examples)) for split, examples in read.items()}
        self.counts = {
            split: Counter(name for row in rows for name in row.labels) for split, rows in labelled.items()
        }
        self.checks = (*class_remarks(self.counts, self.counted), *text_remarks(labelled))
        lines = count_lines(self.counts, self.counted) if any(self.counts.values()) else ()
        for line in (*lines, *self.checks):
            print_line(line)

    def data_of(self, tokenizer: Tokenizer, read: Mapping[str, Sequence[ExampleT]]) -> TextData[EncodedT]:
        """All splits as ids; some examples are kept for the report."""
        self.kept = {split: _sample(examples) for split, examples in read.items()}
        return super().data_of(tokenizer, read)

    @abstractmethod
    def labelled(self, example: ExampleT) -> Labelled:
        """The texts of an example with its class, or its words with their tags."""

    def diagnose(
        self,
        predictor: LocalPredictor,
        read: Mapping[str, Sequence[ExampleT]],
        folder: Path,
        batch_size: int = 32,
    ) -> tuple[Diagnosis, str]:
        """What there is to say of a model, and the split that it is measured on: `test`, or what stands for it.

        Args:
            predictor: the model.
            read: the examples of each split.
            folder: where the model is saved.
            batch_size: how many rows are predicted at once.
        """
        measured = _measured_split(read)
        parts = {
            split: [self.labelled(each) for each in _sample(examples)] for split, examples in read.items()
        }
        for split, rows in parts.items():
            if self.options.hub or (split != TRAIN and split in self.options.files):
                parts[split] = [evolve(row, number=0) for row in rows]  # which is one of another file
        others = [row for split, rows in parts.items() if split != measured for row in rows]
        counts = Counter[str]()
        for split, names in self.counts.items():
            if split != measured and self.stream is None:
                counts.update(names)
        unseen, rows = measured != TRAIN, parts[measured]
        found = diagnose(predictor, rows, others, counts, folder=folder, unseen=unseen, batch_size=batch_size)
        return found, measured

    def aside_digest(self, read: Mapping[str, Sequence[ExampleT]]) -> str:
        """What tells the texts that a model is measured on from others; empty where there are none."""
        if not any(map(len, read.values())):
            return ""
        examples = _sample(read[_measured_split(read)])
        return digest(text for each in examples for text in self.labelled(each).texts).hex()

    def write_report(self, model: Model, data: TextData[EncodedT], directory: Path) -> None:
        """Write `report.html`, of tasks with classes or tags."""
        explained = self.head in EXPLAINED and 0 < len(data.classes) <= MOST_CLASSES
        if not explained or not any(self.kept.values()):
            return
        from peirce_text.tabular.report import write_report

        predictor = LocalPredictor(directory, TorchRunner(model))
        diagnosis, split = self.diagnose(predictor, self.kept, directory)
        path, curves = directory / "report.html", directory / "learning-curves.png"
        write_report(
            path, diagnosis, predictor, title=directory.name, where=f"the {split} split", checks=self.checks,
            curves=curves,
        )  # fmt: skip
        print_line(f"its errors, labels that look wrong, and what to try: {path}")

    def check(self, model: Model, data: TextData[EncodedT]) -> None:
        """Refuse a head without a score for each class, or without one number, and columns that no input takes."""
        name, classes = f"{self.head}_logits", getattr(data, "classes", ())
        logits = next((spec for spec in model.signature.outputs if spec.name == name), None)
        if logits is None or logits.dims[-1] != (len(classes) or 1):
            head = model.heads[self.head].name if self.head in model.heads else "none"
            gives = "no logits" if logits is None else f"logits [{', '.join(map(str, logits.dims))}]"
            wanted = f"a score for each of {len(classes)} classes; give one logit a class"
            raise TaskError(
                f"head {self.head!r} ({head}) gives {gives}, and the task {self.name!r} reads "
                f"{wanted if classes else 'one number for each row'}"
            )
        for split, part in data.splits.items():
            source = self.source_of(split if split in self.options.files else TRAIN)
            self.input_columns.check(model.signature, part, source)

    def metrics(self, model: Model, data: TextData[EncodedT], split: str) -> Mapping[str, float]:
        """What is measured on a split."""
        self.check(model, data)
        found = self.measure(model, data, split)
        self._last = model, split, found
        if self.picture and isinstance(found, Confusion):
            found.draw(Path(self.picture))
        return found.scores

    def plain_rows(self, split: str, label: str = "") -> list[dict[str, Any]]:
        """The rows of a split of the small data, for references.

        Args:
            split: the split.
            label: the column of the classes, of which each split has its share.
        """
        options, files = self.options, self.options.files
        shares = {VALID: options.valid_share, TEST: options.test_share}
        wanted = {name: share for name, share in shares.items() if share and name not in files}
        rows = plain_table(files[TRAIN])
        rows = [row for row in rows if all(each is not None and str(each).strip() for each in row.values())]
        names = getattr(options, "classes", ()) or sorted({row[label] for row in rows} if label else ())
        classes = np.array([names.index(row[label]) for row in rows]) if label else None
        parts = split_rows(len(rows), wanted, options.split_seed, classes)
        if split == TEST and TEST not in {*files, *parts}:
            split = VALID
        if split == TRAIN or split not in files:
            return [rows[i] for i in parts[split]] if split in parts else []
        return plain_table(files[split])

    def remarks(self, model: Model, data: TextData[EncodedT], split: str) -> tuple[str, ...]:
        """What a reader of the metrics learns beyond them, the worst first."""
        last = self._last
        known = last is not None and last[0] is model and last[1] == split
        found = last[2] if last is not None and known else self.measure(model, data, split)
        return tuple(found.sentences())

    def assets(self, data: TextData[EncodedT]) -> Mapping[str, bytes]:
        """The tokenizer, and what `peirce predict` and served models read: the task, the names of the classes, the
        columns that they were learned from, the most tokens of a text, and which texts the model is measured on."""
        content = {
            "task": self.name,
            "classes": list(data.classes),
            "columns": self.columns,
            "length": self.options.length,
            "aside": self.aside_digest(self.kept),
        }
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        return {FILE: super().assets(data)[FILE], LABELS: text.encode()}
