"""The tasks of SentEval: what each measures, and the means that papers print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from peirce.errors import TaskError
from peirce_text import with_progress
from peirce_tpru.senteval.files import FOLDED, STS_SETS, TASKS, TEST, TRAIN, VALID, Read, read_task, tasks_in
from peirce_tpru.senteval.protocol import (
    check_classes,
    check_scores,
    choose_and_test,
    cross_validate,
    pair_features,
    relatedness,
    score_on_test_set,
    similarity,
)
from peirce_tpru.senteval.sentences import Sentences

Measures = Mapping[str, float]
Results = Mapping[str, Measures]
COLUMNS: Mapping[str, Sequence[str]] = {
    "Binary": (*FOLDED, "SST-2"),
    "SST-5": ("SST-5",),
    "TREC": ("TREC",),
    "SICK-E": ("SICK-E",),
    "STS (Su.)": ("SICK-R", "STS-B"),
    "STS (Un.)": tuple(STS_SETS),
    "MRPC": ("MRPC",),
}
"""The columns of the paper's Table 3, and the tasks that each is a mean over."""


def evaluate(
    sentences: Sentences, folder: Path, tasks: Sequence[str] = (), *, folds: int = 10, limit: int = 0
) -> dict[str, Measures]:
    """Measure sentence vectors.

    Args:
        sentences: what gives them.
        folder: of the tasks' files.
        tasks: names of tasks; those that are in the folder if empty.
        folds: of cross validation.
        limit: the most examples of each file of classes that are taken; all if 0. Sets of pairs with scores are whole.

    Returns:
        By task its measures, from 0 to 1.

    Raises:
        TaskError: a task is unknown, or its files are not there or not in their format.
    """
    read = {task: read_task(folder, task) for task in (tasks or tasks_in(folder))}
    for task, splits in read.items():  # all of them before any takes its time
        if TASKS[task].measure == "accuracy":
            read[task] = {split: examples.first(limit) for split, examples in splits.items()}
        try:
            _check(task, read[task], folds)
        except TaskError as error:
            raise TaskError(f"{task}: {error}") from error
    sentences.prepare(
        text
        for splits in read.values()
        for each in splits.values()
        for column in each.texts
        for text in column
    )
    each = with_progress(list(read), "tasks", len(read), 2)
    return {task: _measure(task, read[task], sentences, folds) for task in each}


def means(results: Results) -> dict[str, float]:
    """The columns of Table 3, of those tasks that were measured, from 0 to 1; `MRPC F1` is its second figure."""
    found = {
        column: float(np.mean([results[task][TASKS[task].measure] for task in tasks if task in results]))
        for column, tasks in COLUMNS.items()
        if any(task in results for task in tasks)
    }
    return found | ({"MRPC F1": results["MRPC"]["f1"]} if "MRPC" in results else {})


def _check(task: str, read: Read, folds: int) -> None:
    """Refuse examples that the protocol cannot measure with a `TaskError`."""
    if TASKS[task].measure == "pearson":
        for split in read.keys() - {TRAIN}:
            check_scores(read[split].labels)
    else:
        check_classes(read[TRAIN].labels, 0 if VALID in read else folds, nested=task in FOLDED)


def _measure(task: str, read: Read, sentences: Sentences, folds: int) -> Measures:
    vectors = {
        split: [sentences.of(column, f"{task} {split}") for column in examples.texts]
        for split, examples in read.items()
    }
    if task in STS_SETS:
        return similarity({name: (*vectors[name], examples.labels) for name, examples in read.items()})  # type: ignore[misc]
    rows: dict[str, Any] = {
        split: (found[0] if len(found) == 1 else pair_features(*found), read[split].labels)
        for split, found in vectors.items()
    }
    if task in ("SICK-R", "STS-B"):
        return relatedness(rows[TRAIN], rows[VALID], rows[TEST])
    if task in FOLDED:
        features, labels = rows[TRAIN]
        return {"accuracy": cross_validate(features, labels, folds, f"{task}, folds")}
    if VALID in rows:
        return {"accuracy": choose_and_test(rows[TRAIN], rows[VALID], rows[TEST])}
    accuracy, given = score_on_test_set(rows[TRAIN], rows[TEST], folds)
    if task != "MRPC":
        return {"accuracy": accuracy}
    from sklearn.metrics import f1_score

    return {"accuracy": accuracy, "f1": float(f1_score(rows[TEST][1], given))}
