"""Predictions for GLUE's test sets, as its leaderboard takes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from peirce.errors import TaskError
from peirce.files import write_whole

from peirce_text.glue.metrics import Numbers
from peirce_text.glue.subtasks import Subtask


def submission(task: Subtask, index: Sequence[int], predicted: Numbers) -> str:
    """The file of predictions: a header, and for each example its index and what is predicted.

    Args:
        task: which task; classes are written by their labels, numbers are kept within 0 and 5.
        index: the examples' own.
        predicted: a class each, or a number.
    """
    if task.regression:
        shown = [f"{value:.3f}" for value in np.clip(predicted, 0.0, 5.0)]
    else:
        shown = [task.labels[int(value)] for value in predicted]
    lines = [f"{number}\t{text}" for number, text in zip(index, shown, strict=True)]
    return "\n".join(["index\tprediction", *lines]) + "\n"


def write_submission(
    task: Subtask, split: str, index: Sequence[int], predicted: Numbers, folder: Path
) -> Path:
    """Write a split's predictions under the name that the leaderboard looks for.

    Raises:
        TaskError: the folder cannot be written to.
    """
    name = task.submission(split)
    assert name is not None
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, submission(task, index, predicted))
    except OSError as error:
        raise TaskError(f"predictions cannot be written to {path}: {error.strerror or error}") from error
    return path
