from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from peirce_text.tabular.measures import Confusion, Measurement, spans

RIGHT, PREDICTED = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 1, 1])


def test_scores_are_those_of_scikit_learn(tmp_path: Path) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    found = Confusion.of("abcd", RIGHT, PREDICTED)
    assert found.scores["accuracy"] == metrics.accuracy_score(RIGHT, PREDICTED)
    f1 = metrics.f1_score(RIGHT, PREDICTED, labels=range(4), average="macro", zero_division=0.0)
    assert found.scores["macro_f1"] == pytest.approx(f1)
    worst, *_, best, absent = found.sentences()
    assert worst.startswith("c: support 1, precision 0.000")
    assert "F1 0.800; most often taken for b (1)" in best
    assert absent == "not measured, so with an F1 of 0, since none is here: d"
    found.draw(tmp_path / "confusion.svg")
    assert "<svg" in (tmp_path / "confusion.svg").read_text()


def test_predictions_that_come_one_by_one_count_the_same() -> None:
    measured = Measurement(tags=False)
    for one, other in zip(RIGHT, PREDICTED, strict=True):
        measured.add(["abc"[one]], ["abc"[other]])
    assert measured.metrics() == Confusion.of("abc", RIGHT, PREDICTED).scores
    assert Measurement(tags=False).metrics() == {}


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("O B-a I-a O", {(1, 3, "a")}),
        ("B-a B-a I-b", {(0, 1, "a"), (1, 2, "a"), (2, 3, "b")}),
        ("I-a I-a", {(0, 2, "a")}),
        ("S-a B-a E-a I-a", {(0, 1, "a"), (1, 3, "a"), (3, 4, "a")}),
        ("U-a B-b I-b L-b", {(0, 1, "a"), (1, 4, "b")}),
        ("NN VB", set()),
    ],
)
def test_tags_mark_spans(tags: str, found: set[tuple[int, int, str]]) -> None:
    assert spans(tags.split()) == found


def test_spans_are_measured_over_texts() -> None:
    measured = Measurement(tags=True)
    measured.add(["B-a", "I-a", "O"], ["B-a", "O", "B-b"])
    measured.add(["O", "B-b"], ["O", "B-b"])
    expected = {"accuracy": 3 / 5, "span_f1": 2 / 5, "span_precision": 1 / 3, "span_recall": 1 / 2}
    assert measured.metrics() == pytest.approx(expected)
