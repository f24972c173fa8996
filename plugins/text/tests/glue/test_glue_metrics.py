"""GLUE's metrics against cases worked by hand, and the file of predictions."""

from __future__ import annotations

import numpy as np
import pytest

from peirce_text.glue.metrics import score
from peirce_text.glue.subtasks import SUBTASKS, Metric
from peirce_text.glue.task import submission


@pytest.mark.parametrize("metric", ["f1", "matthews", "pearson", "spearman"])
def test_a_constant_answer_earns_nothing(metric: Metric) -> None:
    labels, constant = np.array([1, 0, 1, 0]), np.zeros(4, dtype=np.int64)
    assert score(metric, labels, constant) == 0.0


def test_predictions_are_written_as_labels_or_as_numbers_within_bounds() -> None:
    assert submission(SUBTASKS["rte"], (0, 1), np.array([1, 0])) == (
        "index\tprediction\n0\tnot_entailment\n1\tentailment\n"
    )
    assert submission(SUBTASKS["cola"], (0, 1), np.array([1, 0])) == "index\tprediction\n0\t1\n1\t0\n"
    assert submission(SUBTASKS["stsb"], (0, 1, 2), np.array([-0.5, 2.34567, 9.0])) == (
        "index\tprediction\n0\t0.000\n1\t2.346\n2\t5.000\n"
    )
