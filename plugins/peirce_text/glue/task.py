"""The task `glue`: classify a sentence or a pair of sentences, or grade how alike two are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import field, frozen, validators
from numpy.typing import NDArray
from peirce.errors import TaskError, unknown
from peirce.model import Model
from torch import Tensor

from peirce_text.glue.encoding import EncodedTexts, encode
from peirce_text.glue.metrics import Numbers, measure
from peirce_text.glue.reading import Examples, read_dataset, read_folder
from peirce_text.glue.submission import submission
from peirce_text.glue.subtasks import DIAGNOSTIC, MISMATCHED, SUBTASKS, TEST, VALID, Subtask
from peirce_text.small import sentence, vocabulary
from peirce_text.tasks import (
    TextTask,
    evaluating,
    of_split,
    of_vocabulary,
    outputs_of,
    say,
    shown,
    write_predictions,
)
from peirce_text.text.tokenizer import Tokenizer

HEAD = "classification"
LABELS = "labels.json"
SCORE = "score"
"""The metric that is the mean of a task's metrics, as GLUE's leaderboard takes it."""


def _known(instance: Any, attribute: Any, value: str) -> None:
    if value not in SUBTASKS:
        raise ValueError(unknown("task of GLUE", value, SUBTASKS))


@frozen(kw_only=True)
class GlueOptions:
    """Which of the nine tasks, where its data lie, and how they are put to the model.

    Args:
        task: cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte or wnli.
        folder: holds the published files, or a folder with the task's published name (`CoLA`, `MNLI`, ...) that does.
        dataset: in place of a folder, a data set for the library `datasets`: a name of its hub, such as
            `nyu-mll/glue`, or a local folder.
        tokenizer: a tokenizers JSON, a BERT vocab.txt, or a folder with one; when empty, that of the model.
        length: the most tokens of an example; of a pair, the longer sentence loses its end.
        batch_size: how many examples are in a batch.
        predictions: a folder for the predictions of the test set in the leaderboard's format, written when split
            `test` is evaluated; empty for none.
    """

    task: str = field(default="cola", validator=_known)
    folder: str = ""
    dataset: str = ""
    tokenizer: str = ""
    length: int = field(default=128, validator=validators.ge(5))
    batch_size: int = field(default=32, validator=validators.ge(1))
    predictions: str = ""


@frozen(eq=False)
class GlueSplit:
    """One split: its texts as ids, its labels (int64 classes or float32 numbers, None without), its indexes."""

    texts: EncodedTexts
    labels: NDArray[Any] | None
    index: tuple[int, ...]


@frozen(eq=False)
class GlueData:
    """What was read.

    Args:
        tokenizer: what split the texts.
        splits: train, valid and test, as far as they are there; MNLI's also `valid_mismatched`, `test_mismatched` and
            `diagnostic`.
    """

    tokenizer: Tokenizer
    splits: Mapping[str, GlueSplit]


class Glue(TextTask[GlueData]):
    """The nine tasks of GLUE, from the published files or a data set of the hub."""

    name = "glue"
    source = "GLUE (Wang et al., 2019); FOLNet (Chen, 2023), Section 4, Appendix B"
    Options = GlueOptions
    head = HEAD
    examples = ("GLUE", "nyu-mll/glue")

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """CoLA with sentences in their order, and out of it."""
        for name, count in (("train", 16), ("dev", 6)):
            made = [sentence(i) if i % 2 else " ".join(sentence(i).split()[::-1]) for i in range(count)]
            lines = [f"x{i}\t{i % 2}\t\t{text}\n" for i, text in enumerate(made)]
            (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
        test = [f"{i}\t{sentence(i)}\n" for i in range(4)]
        (folder / "test.tsv").write_text("index\tsentence\n" + "".join(test), encoding="utf-8")
        return {"folder": str(folder), "tokenizer": vocabulary(folder), "length": 16, "batch_size": 4}

    @property
    def subtask(self) -> Subtask:
        """Which of the nine."""
        return SUBTASKS[self.options.task]

    def prepare(self) -> GlueData:
        """Read the files and tokenise them."""
        options: GlueOptions = self.options
        self.check_source()
        tokenizer = self.tokenizer()
        if options.folder:
            read = read_folder(self.subtask, Path(options.folder))
        else:
            read = read_dataset(self.subtask, options.dataset)
        splits = {}
        for split, examples in read.items():
            what = f"{self.subtask.title} {split}"
            texts = encode(tokenizer, examples.texts, options.length, what)
            splits[split] = GlueSplit(texts, self._labels(examples), examples.index)
        self._tell(read, splits)
        return GlueData(tokenizer, splits)

    def _labels(self, examples: Examples) -> NDArray[Any] | None:
        if examples.labels is None:
            return None
        return np.array(examples.labels, dtype=np.float32 if self.subtask.regression else np.int64)

    def _tell(self, read: Mapping[str, Examples], splits: Mapping[str, GlueSplit]) -> None:
        counts = ", ".join(f"{len(examples):,} {split}" for split, examples in read.items())
        say(f"{self.subtask.title}: {counts}")
        for split, examples in read.items():
            notes = []
            if examples.skipped:
                notes.append(f"{examples.skipped:,} broken or unlabelled rows were left out")
            if cut := splits[split].texts.cut:
                notes.append(f"{cut:,} examples were cut to {self.options.length} tokens")
            if notes:
                say(f"{split}: {'; '.join(notes)}")

    def overrides(self, data: GlueData) -> Mapping[str, Any]:
        """The vocabulary, and a classification head with the task's classes, or for its number."""
        task = self.subtask
        if task.regression:
            head: dict[str, Any] = {"use": HEAD, "classes": 1, "problem": "regression"}
        else:
            problem = "pair" if len(task.texts) == 2 else "single"
            head = {"use": HEAD, "classes": len(task.labels), "problem": problem}
        return {**of_vocabulary(data.tokenizer), "model.heads": [head]}

    def batches(self, data: GlueData, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, each as long as its longest example.

        Yields:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; labels: int64 [b], or float32 [b] of
            a regression.

        Raises:
            TaskError: there is no such split, or it has no labels.
        """
        part = self._part(data, split)
        if part.labels is None:
            raise TaskError(
                f"split {split!r} of {self.subtask.title} has no labels; the organisers keep them, so take "
                f"{VALID!r}"
            )
        for rows in self.order(len(part.texts), split, seed, epoch):
            yield {**part.texts.batch(rows), "labels": torch.from_numpy(part.labels[rows])}

    def metrics(self, model: Model, data: GlueData, split: str) -> Mapping[str, float]:
        """The task's metrics, and their mean as `score`; MNLI's with `accuracy_mismatched`.

        A test set without labels gives `examples` alone, and one that is not there nothing. With `predictions`, its
        predictions are written too.
        """
        if split == TEST and TEST not in data.splits:
            say(f"{self.subtask.title} has no test set here")
            return {}
        measured: dict[str, float] = {}
        parts = [split]
        if split in (VALID, TEST) and split + MISMATCHED in data.splits:
            parts.append(split + MISMATCHED)
        if split == TEST and DIAGNOSTIC in data.splits:
            parts.append(DIAGNOSTIC)
        examples = 0
        for part in parts:
            found = self._part(data, part)
            predicted = self.predict(model, data, part)
            examples += len(predicted)
            if found.labels is not None:
                ending = MISMATCHED if part != split else ""
                own = measure(self.subtask, found.labels, predicted)
                measured |= {f"{name}{ending}": value for name, value in own.items()}
            if self.options.predictions and (name := self.subtask.submission(part)):
                folder = Path(self.options.predictions)
                write_predictions(folder, {name: submission(self.subtask, found.index, predicted)})
                say(f"predictions written to {folder / name}")
        if not measured:
            return {"examples": float(examples)}
        return {SCORE: sum(measured.values()) / len(measured), **measured}

    def predict(self, model: Model, data: GlueData, split: str) -> Numbers:
        """The predicted class (int64) or number (float64) of each example of a split."""
        part = self._part(data, split)
        order = np.argsort(part.texts.lengths, kind="stable")
        predicted = np.zeros(len(order), dtype=np.float64 if self.subtask.regression else np.int64)
        starts = range(0, len(order), self.options.batch_size)
        with evaluating(model) as moved:
            for start in shown(starts, f"predicting {self.subtask.title} {split}", len(starts), 20):
                rows = order[start : start + self.options.batch_size]
                logits = outputs_of(model, moved(part.texts.batch(rows)))[f"{HEAD}_logits"].float()
                chosen = logits[:, 0] if self.subtask.regression else logits.argmax(-1)
                predicted[rows] = chosen.cpu().numpy()
        return predicted

    def _part(self, data: GlueData, split: str) -> GlueSplit:
        where = self.options.folder or self.options.dataset
        hint = (
            f"{where} has no split {split!r} of {self.subtask.title}, which would be "
            f"{self.subtask.files.get(split)}; it has {', '.join(data.splits)}"
        )
        return of_split(data.splits, split, self.subtask.files, hint)

    def assets(self, data: GlueData) -> Mapping[str, bytes]:
        """The tokenizer, and the names of the classes."""
        task = self.subtask
        labels = {"task": task.name, "labels": list(task.labels), "classes": list(task.classes)}
        return {**super().assets(data), LABELS: (json.dumps(labels, indent=1) + "\n").encode()}
