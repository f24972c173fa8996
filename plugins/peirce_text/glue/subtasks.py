"""The nine tasks of GLUE: where their files lie, what the columns and labels are called, what they are measured by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import frozen

Metric = Literal["accuracy", "f1", "matthews", "pearson", "spearman"]

TRAIN, VALID, TEST = "train", "valid", "test"
MISMATCHED = "_mismatched"
"""What the names of MNLI's further splits end in."""
DIAGNOSTIC = "diagnostic"
"""The split of the diagnostic set, which a model of MNLI predicts."""


@frozen(kw_only=True)
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
        averaged: whether it counts in the average.
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
    averaged: bool = True

    @property
    def regression(self) -> bool:
        """Whether a number is predicted in place of a class."""
        return not self.labels

    @property
    def files(self) -> Mapping[str, str]:
        """The file of each split."""
        if self.name != "mnli":
            return {TRAIN: "train.tsv", VALID: "dev.tsv", TEST: "test.tsv"}
        return {
            TRAIN: "train.tsv",
            VALID: "dev_matched.tsv",
            VALID + MISMATCHED: "dev_mismatched.tsv",
            TEST: "test_matched.tsv",
            TEST + MISMATCHED: "test_mismatched.tsv",
            DIAGNOSTIC: "diagnostic.tsv",
        }

    @property
    def hub_splits(self) -> Mapping[str, str]:
        """The split of a data set of the hub for each split."""
        if self.name != "mnli":
            return {TRAIN: "train", VALID: "validation", TEST: "test"}
        return {
            TRAIN: "train",
            VALID: "validation_matched",
            VALID + MISMATCHED: "validation_mismatched",
            TEST: "test_matched",
            TEST + MISMATCHED: "test_mismatched",
        }

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
            name="cola",
            title="CoLA",
            texts=("sentence",),
            hub_texts=("sentence",),
            classes=("unacceptable", "acceptable"),
            metrics=("matthews",),
            header=("source", "label", "judgement", "sentence"),
        ),
        Subtask(
            name="sst2",
            title="SST-2",
            texts=("sentence",),
            hub_texts=("sentence",),
            classes=("negative", "positive"),
        ),
        Subtask(
            name="mrpc",
            title="MRPC",
            texts=("#1 String", "#2 String"),
            label="Quality",
            classes=("not_equivalent", "equivalent"),
            metrics=("accuracy", "f1"),
        ),
        Subtask(
            name="stsb",
            title="STS-B",
            texts=_PAIR,
            label="score",
            labels=(),
            metrics=("pearson", "spearman"),
        ),
        Subtask(
            name="qqp",
            title="QQP",
            texts=("question1", "question2"),
            hub_texts=("question1", "question2"),
            label="is_duplicate",
            classes=("not_duplicate", "duplicate"),
            metrics=("accuracy", "f1"),
        ),
        Subtask(
            name="mnli",
            title="MNLI",
            texts=_PAIR,
            hub_texts=("premise", "hypothesis"),
            label="gold_label",
            labels=_THREE,
            classes=_THREE,
        ),
        Subtask(
            name="qnli",
            title="QNLI",
            texts=("question", "sentence"),
            hub_texts=("question", "sentence"),
            labels=_ENTAILS,
            classes=_ENTAILS,
        ),
        Subtask(name="rte", title="RTE", texts=_PAIR, labels=_ENTAILS, classes=_ENTAILS),
        Subtask(
            name="wnli",
            title="WNLI",
            texts=_PAIR,
            classes=("not_entailment", "entailment"),
            averaged=False,
        ),
    )
}
"""By name. WNLI's development set contradicts its training set, which is why it is left out of averages."""
