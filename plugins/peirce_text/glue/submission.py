"""Predictions for GLUE's test sets, as its leaderboard takes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
