"""The nine tasks of GLUE: where their files lie, what the columns and labels are called, what they are measured by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from attrs import frozen

Metric = Literal["accuracy", "f1", "matthews", "pearson", "spearman"]

TRAIN, VALID, TEST = "train", "valid", "test"
MISMATCHED = "_mismatched"
"""What the names of MNLI's further splits end in."""
DIAGNOSTIC = "diagnostic"
"""The split of the diagnostic set, which a model of MNLI predicts."""


@frozen
class Subtask:
    """One task of GLUE.

    Args:
        name: as the option `task` and the data sets of the hub call it.
        title: as its folder and its file of predictions are called.
        texts: the columns of the one or two sentences in the published files.
        hub_texts: the same in the data sets of the hub.
        label: the column of the label.
        labels: how the classes are written in the files and in predictions, by class; empty for a regression.
        classes: what the classes are called.
        metrics: what it is measured by; the score is their mean.
        header: the columns of files without a header, which are those that have labels; empty where all have one.
    """

    name: str
    title: str
    texts: tuple[str, ...]
    hub_texts: tuple[str, ...] = ("sentence1", "sentence2")
    label: str = "label"
    labels: tuple[str, ...] = ("0", "1")
    classes: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ("accuracy",)
    header: tuple[str, ...] = ()

    @property
    def regression(self) -> bool:
        """Whether a number is predicted in place of a class."""
        return not self.labels

    @property
    def files(self) -> Mapping[str, str]:
        """The file of each split."""
        if self.name != "mnli":
            return {TRAIN: "train.tsv", VALID: "dev.tsv", TEST: "test.tsv"}
        found = {TRAIN: "train.tsv"}
        for split, name in ((VALID, "dev"), (TEST, "test")):
            found |= {split: f"{name}_matched.tsv", split + MISMATCHED: f"{name}_mismatched.tsv"}
        return {**found, DIAGNOSTIC: "diagnostic.tsv"}

    @property
    def hub_splits(self) -> Mapping[str, str]:
        """The split of a data set of the hub for each split."""
        names = {split: Path(file).stem.replace("dev", "validation") for split, file in self.files.items()}
        return {split: name for split, name in names.items() if split != DIAGNOSTIC}

    def submission(self, split: str) -> str | None:
        """The name of the file of predictions for a split; None where there is no submission."""
        if self.name != "mnli":
            return f"{self.title}.tsv" if split == TEST else None
        return {TEST: "MNLI-m.tsv", TEST + MISMATCHED: "MNLI-mm.tsv", DIAGNOSTIC: "AX.tsv"}.get(split)


_PAIR = ("sentence1", "sentence2")
_ENTAILS = ("entailment", "not_entailment")
_THREE = ("entailment", "neutral", "contradiction")

SUBTASKS: Mapping[str, Subtask] = {
    task.name: task
    for task in (
        Subtask(
            "cola", "CoLA", ("sentence",), ("sentence",), classes=("unacceptable", "acceptable"), metrics=("matthews",),
            header=("source", "label", "judgement", "sentence"),
        ),
        Subtask("sst2", "SST-2", ("sentence",), ("sentence",), classes=("negative", "positive")),
        Subtask(
            "mrpc", "MRPC", ("#1 String", "#2 String"), label="Quality", classes=("not_equivalent", "equivalent"),
            metrics=("accuracy", "f1"),
        ),
        Subtask("stsb", "STS-B", _PAIR, label="score", labels=(), metrics=("pearson", "spearman")),
        Subtask(
            "qqp", "QQP", ("question1", "question2"), ("question1", "question2"), label="is_duplicate",
            classes=("not_duplicate", "duplicate"), metrics=("accuracy", "f1"),
        ),
        Subtask(
            "mnli", "MNLI", _PAIR, ("premise", "hypothesis"), label="gold_label", labels=_THREE, classes=_THREE
        ),
        Subtask(
            "qnli", "QNLI", ("question", "sentence"), ("question", "sentence"), labels=_ENTAILS, classes=_ENTAILS
        ),
        Subtask("rte", "RTE", _PAIR, labels=_ENTAILS, classes=_ENTAILS),
        Subtask("wnli", "WNLI", _PAIR, classes=("not_entailment", "entailment")),
    )
}  # fmt: skip
"""By name."""
