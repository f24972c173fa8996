"""GLUE's metrics against cases worked by hand, and the file of predictions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from peirce.errors import TaskError
from peirce_text.glue.metrics import measure, score
from peirce_text.glue.subtasks import SUBTASKS, Metric
from peirce_text.glue.task import submission

LABELS = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
PREDICTED = [1, 1, 1, 0, 0, 0, 0, 0, 1, 1]
"""3 true positives, 2 false ones, 1 false negative, 4 true negatives."""


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("accuracy", 7 / 10),
        ("f1", 2 * 3 / (2 * 3 + 2 + 1)),
        ("matthews", (3 * 4 - 2 * 1) / math.sqrt((3 + 2) * (3 + 1) * (4 + 2) * (4 + 1))),
    ],
)
def test_classes(metric: Metric, value: float) -> None:
    assert score(metric, np.array(LABELS), np.array(PREDICTED)) == pytest.approx(value)


def test_numbers() -> None:
    labels, predicted = np.array([0.0, 1.0, 2.0, 5.0]), np.array([1.0, 0.0, 3.0, 4.0])
    # Deviations from the means, 2 and 2: (-2, -1, 0, 3) and (-1, -2, 1, 2).
    assert score("pearson", labels, predicted) == pytest.approx((2 + 2 + 0 + 6) / math.sqrt(14 * 10))
    # Ranks 1 2 3 4 and 2 1 3 4: 1 - 6 * 2 / (4 * 15).
    assert score("spearman", labels, predicted) == pytest.approx(1 - 12 / 60)


def test_ties_have_their_mean_rank() -> None:
    # Ranks 1 2 3 and 1.5 1.5 3, deviations (-1, 0, 1) and (-.5, -.5, 1).
    labels, predicted = np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0])
    assert score("spearman", labels, predicted) == pytest.approx(1.5 / math.sqrt(2 * 1.5))


@pytest.mark.parametrize("metric", ["f1", "matthews", "pearson", "spearman"])
def test_a_constant_answer_earns_nothing(metric: Metric) -> None:
    labels, constant = np.array([1, 0, 1, 0]), np.zeros(4, dtype=np.int64)
    assert score(metric, labels, constant) == 0.0


def test_the_metrics_of_a_task() -> None:
    assert measure(SUBTASKS["qqp"], np.array(LABELS), np.array(PREDICTED)) == {
        "accuracy": pytest.approx(0.7),
        "f1": pytest.approx(2 / 3),
    }
    with pytest.raises(TaskError, match="not finite"):
        measure(SUBTASKS["stsb"], np.array([1.0, 2.0]), np.array([1.0, np.nan]))


def test_predictions_are_written_as_labels_or_as_numbers_within_bounds() -> None:
    assert submission(SUBTASKS["rte"], (0, 1), np.array([1, 0])) == (
        "index\tprediction\n0\tnot_entailment\n1\tentailment\n"
    )
    assert submission(SUBTASKS["cola"], (0, 1), np.array([1, 0])) == "index\tprediction\n0\t1\n1\t0\n"
    assert submission(SUBTASKS["stsb"], (0, 1, 2), np.array([-0.5, 2.34567, 9.0])) == (
        "index\tprediction\n0\t0.000\n1\t2.346\n2\t5.000\n"
    )
