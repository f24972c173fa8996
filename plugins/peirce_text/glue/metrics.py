"""GLUE's metrics: Matthews correlation, accuracy, F1, Pearson and Spearman correlation, all as shares of one.

scikit-learn and scipy compute them. Where a metric is not defined, because all predictions or all labels are the same,
it is 0: a constant answer earns nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peirce.errors import TaskError
from peirce.extras import require

from peirce_text.glue.subtasks import SUBTASKS, Metric, Subtask

Numbers = NDArray[Any]


def accuracy(labels: Numbers, predicted: Numbers) -> float:
    """The share of examples that are predicted right."""
    from sklearn.metrics import accuracy_score  # type: ignore[import-untyped]

    return float(accuracy_score(labels, predicted))


def f1(labels: Numbers, predicted: Numbers) -> float:
    """The harmonic mean of precision and recall of class 1."""
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predicted, pos_label=1, average="binary", zero_division=0.0))


def matthews(labels: Numbers, predicted: Numbers) -> float:
    """Matthews's correlation coefficient."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(labels, predicted))


def pearson(labels: Numbers, predicted: Numbers) -> float:
    """Pearson's correlation coefficient of two lists of numbers."""
    from scipy.stats import pearsonr  # type: ignore[import-untyped]

    return 0.0 if _constant(labels, predicted) else float(pearsonr(labels, predicted).statistic)


def spearman(labels: Numbers, predicted: Numbers) -> float:
    """Spearman's rank correlation coefficient; ties have their mean rank."""
    from scipy.stats import spearmanr

    return 0.0 if _constant(labels, predicted) else float(spearmanr(labels, predicted).statistic)


METRICS: Mapping[Metric, Callable[[Numbers, Numbers], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}


def measure(task: Subtask, labels: Numbers, predicted: Numbers) -> dict[str, float]:
    """A task's metrics.

    Args:
        task: which task.
        labels: classes as integers, or numbers, [n].
        predicted: the same, as predicted.

    Raises:
        TaskError: a predicted number is not finite.
    """
    require("a metric of GLUE", "sklearn", "scipy", extra="text")
    if not np.isfinite(predicted).all():
        raise TaskError(
            f"the model predicts a number for {task.title} that is not finite; lower train.lr and train again"
        )
    return {name: METRICS[name](labels, predicted) for name in task.metrics}


def average(scores: Mapping[str, float]) -> float | None:
    """The mean of the tasks' scores; WNLI does not count, and None is the average of nothing."""
    counted = [score for name, score in scores.items() if SUBTASKS[name].averaged]
    return sum(counted) / len(counted) if counted else None


def _constant(*columns: Numbers) -> bool:
    return any(len(column) < 2 or bool((column == column[0]).all()) for column in columns)
