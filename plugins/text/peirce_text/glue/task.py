"""The task `glue`: classify a sentence or a pair of sentences, or grade how alike two are."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen
from torch import Tensor

from peirce.errors import TaskError, check_known
from peirce.files import parse_integer
from peirce.model import Model, PlainRows
from peirce_text.glue.metrics import Numbers, score
from peirce_text.glue.subtasks import DIAGNOSTIC, MISMATCHED, SUBTASKS, Subtask
from peirce_text.plain import (
    plain_best,
    plain_correlation,
    plain_ids,
    plain_mean,
    plain_ranks,
)
from peirce_text.progress import print_line
from peirce_text.reading import Example, Row, read_dataset, read_rows
from peirce_text.samples import sentence, vocabulary
from peirce_text.tasks import (
    TEST,
    TRAIN,
    VALID,
    FolderOptions,
    TextClassData,
    TextClasses,
    at_least,
    write_predictions,
)

LABELS = "labels.json"
SCORE = "score"
"""The metric that is the mean of a task's metrics, as GLUE's leaderboard takes it."""
_NO_LABEL = ("", "-", -1, None)
"""Labels of rows on which the annotators did not agree, or that the organisers keep."""


def _check_task(instance: Any, attribute: Any, value: str) -> None:
    check_known("task of GLUE", value, SUBTASKS, ValueError)


@frozen(kw_only=True)
class GlueOptions(FolderOptions):
    """Which of the nine tasks, where its data lie, and how they are put to the model.

    Args:
        task: cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte or wnli.
        folder: holds the published files, or a folder with the task's published name (`CoLA`, `MNLI`, ...) that does.
        dataset: in place of a folder, a data set for the library `datasets`: a name of its hub, such as
            `nyu-mll/glue`, or a local folder.
        length: the most tokens of an example; of a pair, the longer sentence loses its end.
        predictions: a folder for the predictions of the test set in the leaderboard's format, written when split
            `test` is evaluated; empty for none.
    """

    task: str = field(default="cola", validator=_check_task)
    length: int = at_least(5, 128)
    predictions: str = ""


class Glue(TextClasses[GlueOptions]):
    """The nine tasks of GLUE, from the published files or a data set of the hub."""

    name = "glue"
    source = "GLUE (Wang et al., 2019); FOLNet (Chen, 2023), Section 4, Appendix B"
    Options = GlueOptions
    known_splits = (TRAIN, VALID, VALID + MISMATCHED, TEST, TEST + MISMATCHED, DIAGNOSTIC)
    examples = ("GLUE", "nyu-mll/glue")
    packages = ("sklearn", "scipy")
    token_types = 0

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """CoLA with sentences in their order, and out of it."""
        for name, numbers in (("train", range(16)), ("dev", range(16, 22))):
            texts = [sentence(i) if i % 2 else " ".join(sentence(i).split()[::-1]) for i in numbers]
            lines = [f"x{i}\t{i % 2}\t\t{text}\n" for i, text in zip(numbers, texts, strict=True)]
            (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
        test = [f"{i}\t{sentence(i)}\n" for i in range(22, 26)]
        (folder / "test.tsv").write_text("index\tsentence\n" + "".join(test), encoding="utf-8")
        return {"folder": str(folder), "tokenizer": vocabulary(folder), "length": 16, "batch_size": 4}

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """Pairs that are graded, and pairs in classes with two validation files, of which one row has no label."""
        cases: list[Mapping[str, Any]] = []
        for task, names, header in (
            ("stsb", ("train", "dev"), "index\tsentence1\tsentence2\tscore"),
            ("mnli", ("train", "dev_matched", "dev_mismatched"), "index\tsentence1\tsentence2\tgold_label"),
        ):
            place = folder / SUBTASKS[task].title
            place.mkdir(exist_ok=True)
            for k, name in enumerate(names):
                labels = [
                    f"{i % 6 * 0.9:.3f}" if task == "stsb" else SUBTASKS[task].labels[i % 3]
                    for i in range(12)
                ]
                lines = [
                    f"{i}\t{sentence(i + 12 * k)}\t{sentence(i + 3)}\t{each}" for i, each in enumerate(labels)
                ]
                lines += [f"12\t{sentence(1)}\t{sentence(2)}\t-"] if task == "mnli" and not k else []
                (place / f"{name}.tsv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
            cases.append({"task": task})
        return cases

    def reference(self, data: TextClassData, split: str) -> list[dict[str, Any]] | None:
        """The sentences of the published columns, with labels as they stand there."""
        cola, folder = self.options.task == "cola", Path(self.options.folder)
        names = {"train": "train", "valid": "dev_matched" if self.options.task == "mnli" else "dev"}
        if split not in names or self.options.task not in ("cola", "stsb", "mnli"):
            return None
        path = (folder if cola else folder / self.subtask.title) / f"{names[split]}.tsv"
        found = []
        for line in path.read_text(encoding="utf-8").splitlines()[not cola :]:
            parts = line.split("\t")
            texts, label = (parts[3:], parts[1]) if cola else (parts[1:3], parts[3])
            if label == "-":
                continue
            numbers = (
                [self.classes.index(label)]
                if self.options.task == "mnli"
                else [int(label)]
                if cola
                else [float(label)]
            )
            found.append(
                {**plain_ids(data.tokenizer, *texts, length=self.options.length), "labels": numbers[0]}
            )
        return found

    def reference_settings(self, data: TextClassData) -> Mapping[str, Any]:
        """A head for classes of a text or of a pair, or for a number."""
        single = self.options.task in ("cola", "sst2")
        problem = "regression" if self.options.task == "stsb" else "single" if single else "pair"
        head = {"use": "classification", "classes": max(1, len(self.classes)), "problem": problem}
        return {**super().reference_settings(data), "model.heads": [head]}

    def reference_loss(self, rows: PlainRows, outputs: PlainRows) -> float:
        """The cross-entropy, or the mean square of how far numbers are off."""
        if self.options.task != "stsb":
            return super().reference_loss(rows, outputs)
        scores = self.plain_scores(outputs)
        return plain_mean([(each[0] - row["labels"]) ** 2 for each, row in zip(scores, rows, strict=True)])

    def reference_metrics(
        self, data: TextClassData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """Matthews' correlation of CoLA, accuracy of MNLI, and both correlations of STS-B."""
        scores, right = self.plain_scores(outputs), [row["labels"] for row in rows]
        if self.options.task == "stsb":
            given = [each[0] for each in scores]
            pearson = plain_correlation(right, given)
            spearman = plain_correlation(plain_ranks(right), plain_ranks(given))
            return {"pearson": pearson, "spearman": spearman, SCORE: (pearson + spearman) / 2}
        given = list(map(plain_best, scores))
        if self.options.task == "mnli" or len(set(given)) < 2:
            return (
                {} if self.options.task == "cola" else super().reference_metrics(data, split, rows, outputs)
            )
        return {"matthews": plain_correlation(right, given)}

    def __init__(self, options: GlueOptions) -> None:
        super().__init__(options)
        self.subtask: Subtask = SUBTASKS[options.task]
        self.classes = self.subtask.classes

    def rows(self) -> Mapping[str, Iterable[Row]]:
        """The rows of the splits that are there.

        Raises:
            TaskError: no split is there.
        """
        task, folder = self.subtask, Path(self.options.folder)
        if self.options.dataset:
            loaded = read_dataset(self.options.dataset, task.name)
            found: dict[str, Iterable[Row]] = {
                split: loaded[theirs] for split, theirs in task.hub_splits.items() if theirs in loaded
            }
            there, wanted = ", ".join(loaded), task.hub_splits
        else:
            place = folder / task.title if (folder / task.title).is_dir() else folder
            found = {}
            for split, name in task.files.items():
                if (place / name).is_file():
                    header = () if split.startswith(TEST) else task.header
                    found[split] = read_rows(place / name, header=header, broken=True)
            there, wanted = f"no folder {task.title} with them", task.files
        if not found:
            raise TaskError(
                f"{self.options.dataset or folder} holds none of {', '.join(wanted.values())}, which {task.title} is "
                f"published as, but {there}; task.folder is where GLUE was unpacked"
            )
        return found

    def example_of(self, row: Row, split: str) -> Example | str:
        """The sentences, the label, and how predictions name the row; of test sets every row counts."""
        task, hub = self.subtask, isinstance(row.file, str)
        taught = not split.startswith(TEST) and split != DIAGNOSTIC
        texts: tuple[str, ...] = ()
        problem, label = row.broken, None
        if not problem:
            texts = tuple(str(row.value(name)) for name in (task.hub_texts if hub else task.texts))
            column = "label" if hub else task.label
            if taught or (split != DIAGNOSTIC and column in row.values):
                label = self._label(row, column)
            problem = "it has no label" if taught and label is None else ""
        if problem:
            if not taught:
                raise TaskError(
                    f"{row.where}: {problem}, and every row needs a prediction; fetch the published file again"
                )
            return problem
        index = next((row.values[name] for name in ("index", "id", "idx") if name in row.values), "")
        number = parse_integer(str(index))
        return Example(texts, label, row.number - 1 if number is None else number)

    def _label(self, row: Row, column: str) -> float | None:
        """A class, by its name where classes have names, or a number from 0 to 5."""
        task, value = self.subtask, row.value(column)
        if value in _NO_LABEL:
            return None
        if task.regression:
            try:
                if math.isfinite(number := float(value)) and 0 <= number <= 5:
                    return number
            except ValueError:
                pass
        for known in (task.classes, task.labels, range(len(task.labels))):
            if value in known:
                return known.index(value)
        expected = "a number from 0 to 5" if task.regression else f"one of {', '.join(task.labels)}"
        raise TaskError(f"{row.where}: column {column!r} holds {value!r}, and must hold {expected}")

    def head_table(self, data: TextClassData) -> dict[str, Any]:
        """A head with the task's classes, or for its number."""
        task = self.subtask
        if task.regression:
            return {"use": self.head, "classes": 1, "problem": "regression"}
        problem = "pair" if len(task.texts) == 2 else "single"
        return {"use": self.head, "classes": len(task.labels), "problem": problem}

    def choose(self, batch: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> Tensor:
        """The class, or the number."""
        return (
            outputs[f"{self.head}_logits"][:, 0]
            if self.subtask.regression
            else super().choose(batch, outputs)
        )

    def metrics(self, model: Model, data: TextClassData, split: str) -> Mapping[str, float]:
        """The task's metrics, and their mean as `score`; MNLI's with `accuracy_mismatched`.

        A test set without labels gives `examples` alone, and one that is not there nothing. With `predictions`, its
        predictions are written too.
        """
        task, folder = self.subtask, Path(self.options.predictions)
        if split == TEST and TEST not in data.splits:
            print_line(f"{task.title} has no test set here")
            return {}
        more = {VALID: (VALID + MISMATCHED,), TEST: (TEST + MISMATCHED, DIAGNOSTIC)}.get(split, ())
        measured: dict[str, float] = {}
        examples = 0
        for part_name in (split, *(each for each in more if each in data.splits)):
            part, predicted = self.part(data, part_name), self.predict(model, data, part_name)
            examples += len(predicted)
            if "labels" in part.columns:
                ending = MISMATCHED if part_name != split else ""
                if not np.isfinite(predicted).all():
                    raise TaskError(
                        f"the model predicts a number for {task.title} that is not finite; lower train.lr and "
                        "train again"
                    )
                measured |= {f"{name}{ending}": score(name, part.labels, predicted) for name in task.metrics}
            if self.options.predictions and (file := task.submission(part_name)):
                write_predictions(folder, {file: submission(task, part.notes, predicted)})
                print_line(f"predictions written to {folder / file}")
        if not measured:
            return {"examples": float(examples)}
        return {SCORE: sum(measured.values()) / len(measured), **measured}

    def assets(self, data: TextClassData) -> Mapping[str, bytes]:
        """The tokenizer, and the names of the classes."""
        task = self.subtask
        labels = {"task": task.name, "labels": list(task.labels), "classes": list(task.classes)}
        return {**super().assets(data), LABELS: (json.dumps(labels, indent=1) + "\n").encode()}


def submission(task: Subtask, index: Sequence[int], predicted: Numbers) -> str:
    """The predictions for a test set as GLUE's leaderboard takes them: a header, and a line for each example.

    Args:
        task: which task; classes are written by their labels, numbers are kept within 0 and 5.
        index: how predictions name the examples.
        predicted: a class each, or a number.
    """
    if task.regression:
        texts = [f"{value:.3f}" for value in np.clip(predicted, 0.0, 5.0)]
    else:
        texts = [task.labels[int(value)] for value in predicted]
    lines = [f"{number}\t{text}" for number, text in zip(index, texts, strict=True)]
    return "\n".join(["index\tprediction", *lines]) + "\n"
