"""GLUE's metrics: Matthews correlation, accuracy, F1, Pearson and Spearman correlation, all as shares of one.

scikit-learn and scipy compute them. Where a metric is not defined, because all predictions or all labels are the same,
it is 0: a constant answer earns nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peirce_text.glue.subtasks import Metric

Numbers = NDArray[Any]


_FUNCTIONS: Mapping[Metric, tuple[str, str, Mapping[str, Any]]] = {
    "accuracy": ("sklearn.metrics", "accuracy_score", {}),
    "f1": ("sklearn.metrics", "f1_score", {"zero_division": 0.0}),
    "matthews": ("sklearn.metrics", "matthews_corrcoef", {}),
    "pearson": ("scipy.stats", "pearsonr", {}),
    "spearman": ("scipy.stats", "spearmanr", {}),
}
"""Which function computes a metric: its module, its name, and its options."""


def score(metric: Metric, labels: Numbers, predicted: Numbers) -> float:
    """One metric.

    Args:
        metric: which; `f1` is that of class 1.
        labels: classes as integers, or numbers, [n].
        predicted: the same, as predicted.
    """
    module, name, options = _FUNCTIONS[metric]
    if module == "scipy.stats" and any(np.ptp(values) == 0 for values in (labels, predicted)):
        return 0.0
    found = getattr(import_module(module), name)(labels, predicted, **options)
    return float(getattr(found, "statistic", found))
