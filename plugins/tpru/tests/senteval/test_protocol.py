"""SentEval's protocol on data whose answers are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from peirce.errors import TaskError
from peirce_tpru.senteval.protocol import (
    check_classes,
    choose_and_test,
    correlations,
    cosines,
    cross_validate,
    pair_features,
    relatedness,
    score_on_test_set,
    similarity,
)

RANDOM = np.random.default_rng(0)


def separable(count: int) -> tuple[Any, Any]:
    labels = np.arange(count) % 2
    features = RANDOM.normal(size=(count, 3)) + 4 * labels[:, None]
    return features.astype(np.float32), labels


def test_classes_that_can_be_told_are_told_by_each_protocol() -> None:
    features, labels = separable(40)
    assert cross_validate(features, labels, 3) > 0.9
    assert cross_validate(features, RANDOM.permutation(labels), 3) < 0.8
    accuracy, given = score_on_test_set((features, labels), separable(20), 3)
    assert accuracy > 0.9
    assert len(given) == 20
    assert choose_and_test((features, labels), separable(10), separable(20)) > 0.9


def test_relatedness_is_the_expectation_of_a_distribution() -> None:
    features = RANDOM.uniform(size=(200, 2)).astype(np.float32)
    scores = 1 + 4 * features[:, 0].astype(np.float64)
    parts = [(features[a:b], scores[a:b]) for a, b in ((0, 120), (120, 160), (160, 200))]
    found = relatedness(*parts)
    assert found["pearson"] > 0.95
    assert found["spearman"] > 0.95


def test_similarity_by_set_and_its_means() -> None:
    from scipy.stats import pearsonr, spearmanr

    sets = {
        name: (*RANDOM.normal(size=(2, count, 4)).astype(np.float32), RANDOM.uniform(0, 5, count))
        for name, count in (("one", 10), ("two", 30))
    }
    found = similarity(sets)
    by_set = {name: (cosines(u, v), scores) for name, (u, v, scores) in sets.items()}
    pearson = [pearsonr(*by_set[name]).statistic for name in sets]
    assert found["pearson"] == pytest.approx((pearson[0] + 3 * pearson[1]) / 4)
    assert found["pearson_mean"] == pytest.approx(sum(pearson) / 2)
    assert found["spearman/two"] == pytest.approx(spearmanr(*by_set["two"]).statistic)
    together = [np.concatenate(arrays) for arrays in zip(*by_set.values(), strict=True)]
    assert found["spearman_all"] == pytest.approx(spearmanr(*together).statistic)


def test_nothing_to_compare_is_no_correlation() -> None:
    zero = np.zeros((3, 2), np.float32)
    assert cosines(zero, zero + 1).tolist() == [0, 0, 0]
    assert correlations(np.zeros(3), np.arange(3.0)) == {"pearson": 0.0, "spearman": 0.0}
    assert pair_features(zero + 1, zero + 3).tolist() == [[2, 2, 3, 3]] * 3
    with pytest.raises(TaskError, match="scores of its 3 pairs are all alike"):
        correlations(np.arange(3.0), np.ones(3))


@pytest.mark.parametrize(("labels", "words"), [([1] * 6, "one class"), ([0] + [1] * 5, "only 1, too few")])
def test_classes_that_cannot_be_told_are_refused(labels: list[int], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        cross_validate(np.eye(6, dtype=np.float32), np.array(labels), 3)


def test_folds_within_folds_need_two_more_of_a_class() -> None:
    labels = np.array([0] * 5 + [1] * 12)
    check_classes(labels, 3, nested=True)
    cross_validate(np.eye(17, dtype=np.float32), labels, 3)
    for check in (
        lambda few: check_classes(few, 3, nested=True),
        lambda few: cross_validate(np.eye(16), few, 3),
    ):
        with pytest.raises(TaskError, match="too few"):
            check(labels[1:])
