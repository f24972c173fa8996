"""The task on texts that others declare: where texts come from, tokenizer, encoding, batches, evaluation, assets.

`TextTask` holds what all of them repeat: a task says how its texts are read and encoded, and what it measures.
`TextClasses` is the commonest: rows of named columns become one or two texts and a label, for a head that scores
classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast, final

import numpy as np
import torch
from attrs import field, frozen, validators
from numpy.typing import NDArray
from torch import Tensor

from peirce.errors import TaskError, check_known, renamed
from peirce.extras import require
from peirce.files import write_whole
from peirce.model import Model, PlainRows, Task
from peirce.parts import IGNORED, Head, Tokens, plain_cross_entropy
from peirce.parts import Encoded as Atoms
from peirce.spec import HeadSpec, Spec
from peirce_text.plain import plain_accuracy
from peirce_text.progress import print_line, with_progress
from peirce_text.reading import Example, Row
from peirce_text.text.encoding import EncodedTexts, Ints, encode
from peirce_text.text.tokenizer import FILE, Shorten, Tokenizer

TRAIN, VALID, TEST = SPLITS = ("train", "valid", "test")
MOST_BEGUN = 20_000
"""The most examples that a training begins with: 30 MB of vectors of 384 channels."""
CLASSES = "labels.txt"
"""The asset with the names of the classes, a line each."""


_RENAMED = {"encoded": "encode", "evaluated": "evaluate_batches", "predicted": "predict", "chosen": "choose"}
"""Methods of tasks on texts by their older names."""
_DTYPES = {"int64": torch.int64, "bool": torch.bool}


def at_least(least: int, default: int) -> Any:
    """An option that takes whole numbers from some number on."""
    return field(default=default, validator=validators.ge(least))


@frozen(kw_only=True)
class TextOptions:
    """How texts become batches.

    Args:
        tokenizer: a tokenizers JSON, a BERT vocab.txt, or a folder with one; when empty, WordPiece is trained on the
            training texts, if `vocabulary` says how large.
        length: the most tokens of an example.
        batch_size: how many examples are in a batch.
    """

    tokenizer: str = ""
    length: int = at_least(5, 128)
    batch_size: int = at_least(1, 32)


@frozen(kw_only=True)
class FolderOptions(TextOptions):
    """Where published data lie.

    Args:
        folder: holds the published files.
        dataset: in place of a folder, a data set of the library `datasets`: a name of its hub, or a local folder.
        vocabulary: how many entries a tokenizer has that is trained; 0 for the one that the model comes with.
    """

    folder: str = ""
    dataset: str = ""
    vocabulary: int = at_least(0, 0)


@frozen(kw_only=True)
class FileOptions(TextOptions):
    """Where the user's texts lie.

    Args:
        data: what to train on: a .csv, .tsv or .jsonl file, gzipped or not.
        valid_data: what to choose by while training.
        test_data: what to evaluate on; that of `valid_data` if empty.
        dataset: in place of files, a data set of the library `datasets`: a name of its hub, or a local folder.
        vocabulary: how many entries a tokenizer has that is trained.
    """

    data: str = ""
    valid_data: str = ""
    test_data: str = ""
    dataset: str = ""
    vocabulary: int = at_least(1, 8000)

    @property
    def files(self) -> dict[str, Path]:
        """The file of each split that has one."""
        named = {TRAIN: self.data, VALID: self.valid_data, TEST: self.test_data}
        return {split: Path(file) for split, file in named.items() if file}


class Encoded(Protocol):
    """The examples of a split as ids, as `EncodedTexts` holds them."""

    @property
    def lengths(self) -> Ints:
        """int64 [n], what examples are sorted by, so that little is padded."""

    @property
    def cut(self) -> int:
        """How many examples lost tokens."""

    def batch(self, rows: Ints) -> dict[str, Tensor]:
        """Some of the examples, padded, with their labels."""


OptionsT = TypeVar("OptionsT", bound=TextOptions)
ExampleT = TypeVar("ExampleT")
EncodedT = TypeVar("EncodedT", bound=Encoded)
T = TypeVar("T")


@frozen(eq=False)
class TextData(Generic[EncodedT]):
    """What a task on texts has read.

    Args:
        tokenizer: what divides texts.
        splits: the examples as ids.
        classes: the names of the classes, by their numbers; empty where there are none.
    """

    tokenizer: Tokenizer
    splits: Mapping[str, EncodedT]
    classes: tuple[str, ...] = ()


TextClassData = TextData[EncodedTexts]
"""Texts in classes."""


def _keep_head(own: HeadSpec, table: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a spec's head, with what the data determine in `table`, the one that the task would set."""
    determined = dict(table) if own.use == table["use"] else {k: table[k] for k in ("classes",) if k in table}
    return {**own.options, **determined, "use": own.use, "as": own.as_}


class TextTask(Task[OptionsT, TextData[EncodedT]], Generic[OptionsT, ExampleT, EncodedT]):
    """A task whose batches hold texts as ids, and `labels` for the head that predicts them.

    Attributes:
        head: the prefix of that head.
        nouns: what messages call the examples.
        known_splits: the splits that it may have.
        examples: a folder, or a file, and a data set of the hub, for whoever gave neither.
        packages: what it imports that not every installation has.
        extra: the extra that brings them, as `peirce.extras.require` takes it.
        pool: among so many training batches, examples of about one length share one, and batches of other splits go
            from the shortest to the longest; 0 leaves examples in the order that is drawn, or in which they are read.
        missing: what to do for a split that is not there.
        valid_for_test: whether the validation split stands for a test split that is not there.
        min_frequency: how often two pieces of a word must meet for a trained tokenizer to join them.
        shorten: which text of a pair loses its end.
    """

    head: str
    nouns: ClassVar[str] = "examples"
    known_splits: ClassVar[Sequence[str]] = SPLITS
    examples: ClassVar[tuple[str, str]]
    packages: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[str] = "peirce-text[train]"
    pool: ClassVar[int] = 0
    missing: ClassVar[str] = "name its data"
    valid_for_test: ClassVar[bool] = False
    min_frequency: ClassVar[int] = 2
    shorten: ClassVar[Shorten] = "longest"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for old, new in _RENAMED.items():
            if old in vars(cls):
                renamed(f"{cls.__qualname__}.{old}", new, "2.0")
                setattr(cls, new, vars(cls)[old])

    # What a task declares

    @abstractmethod
    def read(self) -> Mapping[str, Sequence[ExampleT]]:
        """The examples of each split, from where the options say."""

    @abstractmethod
    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[ExampleT]) -> EncodedT:
        """The examples of a split as ids."""

    def texts_of(self, example: ExampleT) -> Iterable[str]:
        """What a tokenizer is trained on of a training example."""
        return ()

    def data_of(self, tokenizer: Tokenizer, read: Mapping[str, Sequence[ExampleT]]) -> TextData[EncodedT]:
        """All splits as ids."""
        return TextData(
            tokenizer, {split: self.encode(tokenizer, split, examples) for split, examples in read.items()}
        )

    def batch(
        self, data: TextData[EncodedT], split: str, rows: Ints, rng: np.random.Generator | None
    ) -> dict[str, Tensor]:
        """Some examples of a split; `drawn` is there in training, for what is drawn anew in each epoch."""
        return self.part(data, split).batch(rows)

    # What all of them do

    @final
    def overrides_for(self, spec: Spec, data: TextData[EncodedT]) -> Mapping[str, Any]:
        """The `overrides`, where a head of the spec with the prefix that the task reads keeps its part and its options.

        A part of the user's own gets the number of classes, where there are classes, and otherwise only what the spec
        says.
        """
        overrides = dict(self.overrides(data))
        given = {head.as_: head for head in spec.heads}
        if "model.heads" in overrides:
            overrides["model.heads"] = [
                table if (own := given.get(table.get("as", table["use"]))) is None else _keep_head(own, table)
                for table in overrides["model.heads"]
            ]
        return overrides

    def prepare(self) -> TextData[EncodedT]:
        """Read the texts, find or train the tokenizer, and encode them.

        Raises:
            TaskError: the options name no data, or name them twice; there is no tokenizer; a split has no examples.
        """
        require(f"the task {self.name}", *self.packages, extra=self.extra)
        self.check_source()
        read = dict(self.read())
        for split, examples in read.items():
            if not len(examples):
                raise TaskError(f"{self.source_of(split)}: the {split} split has no {self.nouns}")
        tokenizer = self.tokenizer(read.get(TRAIN))
        data = self.data_of(tokenizer, read)
        print_line(
            f"{self.name}: {', '.join(f'{len(examples):,} {split}' for split, examples in read.items())} {self.nouns}"
        )
        for split, part in data.splits.items():
            if part.cut:
                share = (
                    f"{part.cut:,} of {len(read[split]):,} {self.nouns} ({part.cut / len(read[split]):.1%})"
                )
                print_line(f"{split}: {share} are cut to task.length = {self.options.length} tokens")
        if self.valid_for_test and TEST not in data.splits and VALID in data.splits:
            print_line("there is no test split; the validation split stands for it")
            return TextData(tokenizer, {**data.splits, TEST: data.splits[VALID]}, data.classes)
        return data

    def check_source(self) -> None:
        """Refuse options that name no data, or name them twice.

        Raises:
            TaskError: there is neither a folder, or a file, nor a data set, or both.
        """
        option = "folder" if isinstance(self.options, FolderOptions) else "data"
        if bool(getattr(self.options, option)) == bool(getattr(self.options, "dataset", "")):
            place, dataset = self.examples
            raise TaskError(
                f"{self.name} needs either task.{option} or task.dataset: the published files, or your own, such as "
                f"--set {option}={place}, or a data set of the hub, such as --set dataset={dataset}"
            )

    def source_of(self, split: str) -> str:
        """Where the options say that a split lies."""
        options: Any = self.options
        if isinstance(options, FileOptions) and split in options.files:
            return str(options.files[split])
        return str(options.dataset or options.folder)

    def tokenizer(self, examples: Iterable[ExampleT] | None) -> Tokenizer:
        """The tokenizer that the options name, or one that is trained.

        Args:
            examples: what it is trained on.

        Raises:
            TaskError: they name none, and there is nothing to train one on.
        """
        vocabulary = getattr(self.options, "vocabulary", 0)
        if self.options.tokenizer:
            return Tokenizer.load(self.options.tokenizer)
        if examples is None or not vocabulary:
            raise TaskError(
                f"{self.name} needs a tokenizer, and the model comes with none; set task.tokenizer to a tokenizers "
                "JSON, a BERT vocab.txt or a folder with one: the one that the model was pretrained with"
            )
        texts = [text for example in examples for text in self.texts_of(example)]
        return Tokenizer.train(texts, vocabulary=vocabulary, min_frequency=self.min_frequency)

    def part(self, data: TextData[EncodedT], split: str) -> EncodedT:
        """The examples of a split.

        Raises:
            TaskError: there is no such split.
        """
        if split in data.splits:
            return data.splits[split]
        check_known("split", split, self.known_splits, TaskError)
        raise TaskError(
            f"{self.name} has no {split!r} split here, only {', '.join(data.splits)}; {self.missing}, or leave "
            "the evaluation out with train.test_split= and train.evaluate_every=0"
        )

    def batches(
        self, data: TextData[EncodedT], split: str, seed: int, epoch: int
    ) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, each as long as its longest example.

        Yields:
            What `encode` gives batches of: input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x];
            labels: int64 [b], or float32 [b] of a regression.
        """
        part = self.part(data, split)
        rng = np.random.default_rng([seed, epoch]) if split == TRAIN else None
        for rows in batch_rows(part.lengths, self.options.batch_size, rng, self.pool):
            yield self.batch(data, split, rows, rng)

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The loss of the head."""
        return model.loss(self.head, outputs_of(model, batch), batch["labels"])

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The labels of a batch."""
        return {"loss": len(batch["labels"])}

    def evaluate_batches(
        self, model: Model, data: TextData[EncodedT], split: str
    ) -> Iterator[tuple[Ints, dict[str, Tensor], dict[str, Tensor]]]:
        """Each batch of a split, from the shortest to the longest: the places of its rows, itself, and the outputs."""
        part = self.part(data, split)
        batches = batch_rows(part.lengths, self.options.batch_size, None, 1)
        with evaluation_mode(model) as moved:
            for rows in with_progress(batches, f"{self.name}: evaluating {split}", len(batches), 20):
                batch = moved(self.batch(data, split, rows, None))
                yield rows, batch, outputs_of(model, batch)

    def begin(self, model: Model, data: TextData[EncodedT]) -> str:
        """What the head begins with after one pass over the training examples, of many over some of them."""
        head = cast(Head, model.heads[self.head])
        if type(head).fit is Head.fit:
            return ""
        part = self.part(data, TRAIN)
        rows = np.unique(np.linspace(0, len(part.lengths) - 1, MOST_BEGUN).astype(int))
        batches = [rows[some] for some in batch_rows(part.lengths[rows], self.options.batch_size, None, 1)]

        def examples() -> Iterator[tuple[Atoms, Tokens, Tensor, Tensor | None]]:
            for some in with_progress(batches, f"{self.name}: reading {TRAIN}", len(batches), 20):
                batch = moved(self.batch(data, TRAIN, some, None))
                yield *model.network(inputs_of(model, batch)), batch["labels"], batch.get("weights")

        with evaluation_mode(model) as moved:
            return head.fit(examples())

    def reference_settings(self, data: TextData[EncodedT]) -> Mapping[str, Any]:
        """The size of the vocabulary, and what fills rows; tasks add their heads."""
        tokenizer = data.tokenizer
        return {"model.input.vocabulary": tokenizer.vocabulary, "model.input.pad_id": tokenizer.pad_id}

    def plain_scores(self, outputs: PlainRows) -> list[Any]:
        """What the head gives for each row, for references."""
        return [each[f"{self.head}_logits"] for each in outputs]

    def plain_guesses(self, rows: PlainRows, outputs: PlainRows) -> list[tuple[int, Any]]:
        """Each label of some rows with the scores of its classes, for references: one of a row, or of each token."""
        found: list[tuple[int, Any]] = []
        for row, scores in zip(rows, self.plain_scores(outputs), strict=True):
            labels = row["labels"]
            found += zip(labels, scores, strict=True) if isinstance(labels, list) else [(labels, scores)]
        return [guess for guess in found if guess[0] != IGNORED]

    def reference_loss(self, rows: PlainRows, outputs: PlainRows) -> float:
        """The cross-entropy of the labels."""
        guesses = self.plain_guesses(rows, outputs)
        return plain_cross_entropy([scores for _, scores in guesses], [label for label, _ in guesses])

    def assets(self, data: TextData[EncodedT]) -> Mapping[str, bytes]:
        """The tokenizer, which frames, cuts and pads texts as in training, and the names of the classes."""
        names = {CLASSES: "".join(f"{name}\n" for name in data.classes).encode()} if data.classes else {}
        return {FILE: data.tokenizer.saved_content(self.options.length, self.shorten), **names}


class TextClasses(TextTask[OptionsT, Example, EncodedTexts], Generic[OptionsT]):
    """A task of texts, or pairs of texts, in classes.

    Attributes:
        head: the prefix of the head that scores them.
        classes: the names of the classes.
        most_left_out: the share of rows that may be left out of a split.
        repair: what to do where more cannot be used.
        token_types: how many token types the model must have; 0 leaves them to the spec.
    """

    head = "classification"
    classes: tuple[str, ...] = ()
    most_left_out: ClassVar[float] = 0.01
    repair: ClassVar[str] = "fetch the published file again"
    token_types: ClassVar[int] = 2

    @abstractmethod
    def rows(self) -> Mapping[str, Iterable[Row]]:
        """The rows of each split, from where the options say."""

    @abstractmethod
    def example_of(self, row: Row, split: str) -> Example | str:
        """What a row becomes, or why it is left out.

        Raises:
            TaskError: the row is not in the published format.
        """

    def read(self) -> dict[str, Sequence[Example]]:
        """What `rows` become.

        Raises:
            TaskError: so many rows are left out that the data are not what they should be.
        """
        return {
            split: keep_usable(
                split,
                ((row.where, self.example_of(row, split)) for row in rows),
                self.most_left_out,
                self.repair,
            )
            for split, rows in self.rows().items()
        }

    def texts_of(self, example: Example) -> Iterable[str]:
        """The texts themselves."""
        return example.texts

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Example]) -> EncodedTexts:
        """`[CLS] first [SEP] second [SEP]`, with a label for each."""
        texts = list(zip(*(each.texts for each in examples), strict=True))
        encoded = encode(tokenizer, texts, self.options.length, f"{split} {self.nouns}", self.shorten)
        return encoded.labelled(self.labels_of(examples), [each.note for each in examples])

    def labels_of(self, examples: Sequence[Example]) -> NDArray[Any] | None:
        """int64 [n], or float32 [n] where there are no classes; None where labels are not published."""
        labels = [each.label for each in examples if each.label is not None]
        if len(labels) < len(examples):
            return None
        return np.array(labels, np.int64 if self.classes else np.float32)

    def data_of(self, tokenizer: Tokenizer, read: Mapping[str, Sequence[Example]]) -> TextClassData:
        """All splits as ids, and the names of the classes."""
        return TextClassData(tokenizer, super().data_of(tokenizer, read).splits, self.classes)

    def overrides(self, data: TextClassData) -> Mapping[str, Any]:
        """The vocabulary, token types, and the head with its classes."""
        types = {"model.input.token_types": self.token_types} if self.token_types else {}
        return {**vocabulary_settings(data.tokenizer), **types, "model.heads": [self.head_table(data)]}

    def head_table(self, data: TextClassData) -> dict[str, Any]:
        """The head, as a spec has it."""
        return {"use": self.head, "classes": len(data.classes), "problem": "pair"}

    def batches(
        self, data: TextClassData, split: str, seed: int, epoch: int
    ) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, as every task on texts has them.

        Raises:
            TaskError: there is no such split, or it has no labels.
        """
        if "labels" not in self.part(data, split).columns:
            raise TaskError(
                f"split {split!r} of {self.name} has no labels; they are not published, so take {VALID!r}"
            )
        return super().batches(data, split, seed, epoch)

    def choose(self, batch: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> Tensor:
        """[b], the class of each example of a batch."""
        return outputs[f"{self.head}_logits"].argmax(-1)

    def predict(self, model: Model, data: TextClassData, split: str) -> NDArray[Any]:
        """What is predicted of each example of a split, its class."""
        parts = [
            (rows, self.choose(batch, outputs).cpu().numpy())
            for rows, batch, outputs in self.evaluate_batches(model, data, split)
        ]
        rows, found = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return found[np.argsort(rows)]

    def right(self, model: Model, data: TextClassData, split: str) -> NDArray[np.bool_]:
        """Whether a model labels each example of a split as its label says."""
        right: NDArray[np.bool_] = self.predict(model, data, split) == self.part(data, split).labels
        return right

    def metrics(self, model: Model, data: TextClassData, split: str) -> Mapping[str, float]:
        """The share of examples that are labelled right."""
        return {"accuracy": float(self.right(model, data, split).mean())}

    def reference_metrics(
        self, data: TextClassData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """The share of rows whose label has the largest score."""
        return {"accuracy": plain_accuracy(self.plain_guesses(rows, outputs))}


def keep_usable(
    split: str, examples: Iterable[tuple[str, T | str]], most: float = 1.0, repair: str = TextClasses.repair
) -> list[T]:
    """The usable examples of a split; a line is printed about the others.

    Args:
        split: which split.
        examples: their places, and what they are, or why they are left out.
        most: the share of them that may be left out; one may be in any case.
        repair: what to do where there are more.

    Raises:
        TaskError: more are left out.
    """
    found: list[T] = []
    left_out: list[tuple[str, str]] = []
    for where, each in examples:
        if isinstance(each, str):
            left_out.append((where, each))
        else:
            found.append(each)
    if left_out:
        count = len(found) + len(left_out)
        what = f"{len(left_out):,} of {count:,} {split} rows cannot be used, the first is {': '.join(left_out[0])}"
        reasons = Counter(reason for _, reason in left_out).most_common(5)
        if len(reasons) > 1:
            what += f" ({', '.join(f'{n:,} since {reason}' for reason, n in reasons)})"
        if len(left_out) > most * count and (not found or len(left_out) > 1):
            raise TaskError(f"{what}; {repair}")
        print_line(f"{what}; they are left out")
    return found


def batch_rows(lengths: Ints, size: int, rng: np.random.Generator | None, pool: int = 0) -> list[Ints]:
    """The rows of each batch.

    Args:
        lengths: int64 [n], the lengths of all rows.
        size: how many rows a batch has.
        rng: what draws their order; None leaves them as they stand.
        pool: among so many batches rows of about one length share one, and the batches' order is drawn too; without
            `drawn` all go from the shortest to the longest. 0 leaves rows in their order.
    """
    order = np.arange(len(lengths)) if rng is None else rng.permutation(len(lengths))
    together = size * pool if rng is not None and pool else max(1, len(order))
    batches: list[Ints] = []
    for begin in range(0, len(order), together):
        some = order[begin : begin + together]
        if pool:
            some = some[np.argsort(lengths[some], kind="stable")]
        batches += [some[start : start + size] for start in range(0, len(some), size)]
    return [batches[i] for i in rng.permutation(len(batches))] if rng is not None and pool else batches


def vocabulary_settings(tokenizer: Tokenizer) -> dict[str, Any]:
    """The settings of a spec that a tokenizer determines."""
    return {"model.input.vocabulary": tokenizer.vocabulary, "model.input.pad_id": tokenizer.pad_id}


def outputs_of(model: Model, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a model gives for `inputs_of` it."""
    return model(**inputs_of(model, batch))


def inputs_of(model: Model, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those tensors of a batch that are inputs of a model; with one token type, all have that.

    Floats are cast to the dtype of their input. Where they are NaN, as at tokens for which a column has no number, they
    are the input's default, or else 0.
    """
    given = {spec.name: batch[spec.name] for spec in model.signature.inputs if spec.name in batch}
    for spec in model.signature.inputs:
        if spec.name in given and given[spec.name].is_floating_point():
            values, dtype = given[spec.name], _DTYPES.get(spec.dtype, model.dtype)
            given[spec.name] = values.masked_fill(values.isnan(), float(spec.default or 0)).to(dtype)
        if spec.name == "token_type_ids" and spec.high == 1:  # as RoBERTa has them
            given[spec.name] = torch.zeros_like(batch[spec.name])
    return given


@contextmanager
def evaluation_mode(model: Model) -> Iterator[Callable[[Mapping[str, Tensor]], dict[str, Tensor]]]:
    """Within it a model is in evaluation mode and keeps no gradients; gives what moves a batch to its device."""
    device, training = next(model.parameters()).device, model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield lambda batch: {name: tensor.to(device) for name, tensor in batch.items()}
    finally:
        model.train(training)


def write_predictions(folder: Path, contents: Mapping[str, str]) -> None:
    """Write files of predictions, by name.

    Raises:
        TaskError: the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_whole(folder / name, content)
    except OSError as error:
        raise TaskError(f"predictions cannot be written to {folder}: {error.strerror or error}") from error
