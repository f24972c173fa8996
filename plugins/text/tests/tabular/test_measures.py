from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peirce_text.reading import Row
from peirce_text.tabular.columns import Roles
from peirce_text.tabular.kinds import KINDS, character_spans
from peirce_text.tabular.measures import Confusion, spans
from peirce_text.tabular.scores import Errors, LabelCounts, Ranking

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


def row_of(**values: Any) -> Row:
    return Row("table", 1, values)


def test_predictions_that_come_one_by_one_count_the_same() -> None:
    measured = KINDS["classify"].measurement()
    assert measured.found is None
    for one, other in zip(RIGHT, PREDICTED, strict=True):
        measured.add(row_of(kind="abc"[one]), Roles(("text",), "kind"), "abc"[other])
    assert measured.found is not None
    assert measured.found.scores == Confusion.of("abc", RIGHT, PREDICTED).scores


def test_labels_are_found_one_by_one() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    right, guessed = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0]]), np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]])
    scores = LabelCounts.of("abc", right, guessed).scores
    for average in ("micro", "macro"):
        expected = metrics.f1_score(right, guessed, average=average, zero_division=0.0)
        assert scores[f"{average}_f1"] == pytest.approx(expected)
    assert scores["exact"] == pytest.approx(metrics.accuracy_score(right, guessed))
    measured = KINDS["multilabel"].measurement()
    for one, other in zip(right, guessed, strict=True):
        names = [["abc"[i] for i in np.flatnonzero(each)] for each in (one, other)]
        measured.add(row_of(kind=names[0]), Roles(("text",), "kind"), names[1])
    assert measured.found is not None
    assert measured.found.scores == scores


def test_errors_of_numbers_are_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    right, guessed = np.array([1.0, 2.0, 2.0, 5.0]), np.array([1.5, 1.0, 2.0, 3.0])
    scores = Errors(right, guessed).scores
    assert scores["pearson"] == pytest.approx(stats.pearsonr(right, guessed).statistic)
    assert scores["spearman"] == pytest.approx(stats.spearmanr(right, guessed).statistic)
    assert (scores["mae"], scores["rmse"]) == pytest.approx((3.5 / 4, np.sqrt(5.25 / 4)))
    assert Errors(right, right).scores["r2"] == 1
    assert Errors(right, np.full(4, 2.5)).scores["spearman"] == 0


def test_a_ranking_counts_the_best_places_most() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    queries = np.repeat([0, 1, 2], 4)
    right = np.array([3.0, 0, 1, 2, 0, 0, 1, 0, 1, 1, 1, 1])
    guessed = np.array([0.1, 0.9, 0.5, 0.3, 4, 3, 2, 1, 1, 2, 3, 4])
    found = Ranking(queries, right, guessed)
    lists = (slice(0, 4), slice(4, 8))  # in the third no text is better than another
    expected = np.mean([metrics.ndcg_score([right[each]], [guessed[each]], k=10) for each in lists])
    assert found.scores == pytest.approx({"ndcg_10": expected, "mrr": (1 / 4 + 1 / 3) / 2})
    assert list(found.sentences()) == ["2 of 3 queries have texts of different scores, and are measured"]
    measured = KINDS["rank"].measurement()
    for i in range(12):
        row = row_of(query=f"q{queries[i]}" * (10**6 if i == 0 else 1), score=right[i])
        measured.add(row, Roles(("query", "text"), "score"), guessed[i])
    measured.add(
        row_of(query="q0", score=-1), Roles(("query", "text"), "score"), 1.0
    )  # below zero: not measured
    tracemalloc.start()
    measures = measured.found
    assert tracemalloc.get_traced_memory()[1] < 1 << 20  # one long query takes no room for each of the others
    tracemalloc.stop()
    assert measures is not None
    assert list(measures.sentences()) == ["2 of 4 queries have texts of different scores, and are measured"]


def test_spans_of_characters_stand_in_the_text() -> None:
    text = "  Ada  Byron lives in Rome."
    tags = ["B-who", "I-who", "O", "O", "S-where"]
    found = character_spans(text.split(), tags, text)
    assert [text[each["start"] : each["end"]] for each in found] == ["Ada  Byron", "Rome."]
    assert [each["tag"] for each in found] == ["who", "where"]
    listed = character_spans(["Ada", "sat"], ["NN", "VB"], ["Ada", "sat"])
    assert listed[1] == {"start": 4, "end": 7, "tag": "VB", "text": "sat"}
    assert character_spans(["it", "sat"], ["O", "O"], "it sat") == []


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
    measured, roles = KINDS["tag"].measurement(), Roles(("words",), "tags")
    measured.add(row_of(tags=["B-a", "I-a", "O"]), roles, ["B-a", "O", "B-b"])
    measured.add(row_of(tags=["O", "B-b"]), roles, ["O", "B-b"])
    expected = {"accuracy": 3 / 5, "span_f1": 2 / 5, "span_precision": 1 / 3, "span_recall": 1 / 2}
    assert measured.found is not None
    assert measured.found.scores == pytest.approx(expected)
