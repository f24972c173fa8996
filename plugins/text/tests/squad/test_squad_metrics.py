"""SQuAD's metrics against cases worked by hand."""

from __future__ import annotations

import pytest

from peirce_text.squad.metrics import Judgement, best_score, best_thresholds, exact, f1, measure, normalise


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ("The  Dog's mat!", "dogs mat"),
        ("An apple, a day", "apple day"),
        ("the", ""),
        ("theatre an-d", "theatre and"),  # punctuation goes first, so nothing is left of the article
        ("U.S.A.", "usa"),
        ("«été»", "«été»"),  # only ASCII punctuation counts as such
    ],
)
def test_normalisation(answer: str, left: str) -> None:
    assert normalise(answer) == left


def test_f1_counts_each_word_as_often_as_it_stands() -> None:
    # 2 of 3 words are right, and 2 of 4 are found: 2 * 2 / (3 + 4).
    assert f1("big red dog", "red dog sat down") == pytest.approx(4 / 7)
    assert f1("dog dog dog", "dog") == pytest.approx(2 * 1 / 4)
    assert f1("cat", "dog") == 0.0
    assert best_score(f1, "red dog", ["cat", "big red dog"]) == pytest.approx(4 / 5)


def test_no_answer_is_right_where_there_is_none() -> None:
    assert best_score(f1, "", []) == best_score(exact, "", []) == 1.0
    assert best_score(f1, "dog", []) == 0.0
    assert best_score(f1, "", ["dog"]) == 0.0
    assert best_score(exact, "the", ["the", "dog"]) == 0.0  # nothing is left of the first
    assert best_score(exact, "", ["the"]) == best_score(exact, "cat", ["dog", "A Cat."]) == 1.0


def judged(answer: str, none: float, *right: str) -> Judgement:
    return Judgement(right, answer, none)


QUESTIONS = [
    judged("red dog", -3.0, "the red dog"),  # exact 1, F1 1
    judged("dog", -1.0),  # wrong as soon as it is answered
    judged("big cat", 0.0, "cat"),  # exact 0, F1 2/3
    judged("mat", 2.0, "mat"),  # exact 1, F1 1
    judged("film", 4.0),  # wrong as soon as it is answered
]


def test_a_threshold_decides_which_questions_are_answered() -> None:
    found = measure(QUESTIONS, 0.0)  # the last two are not answered
    assert found == {
        "exact": pytest.approx((1 + 0 + 0 + 0 + 1) / 5),
        "f1": pytest.approx((1 + 0 + 2 / 3 + 0 + 1) / 5),
        "answerable_exact": pytest.approx(1 / 3),
        "answerable_f1": pytest.approx((1 + 2 / 3) / 3),
        "unanswerable_exact": pytest.approx(1 / 2),
    }


def test_without_unanswerable_questions_all_are_answered() -> None:
    answerable = [question for question in QUESTIONS if question.answerable]
    assert measure(answerable, None) == {
        "exact": pytest.approx(2 / 3),
        "f1": pytest.approx((1 + 2 / 3 + 1) / 3),
    }


def test_the_best_thresholds() -> None:
    # Answered one after the other, of five right ones: 2 with none answered, then 3, 2, 2 or 2 2/3, 3 or 3 2/3, ...
    assert best_thresholds(QUESTIONS) == {
        "best_exact": pytest.approx(3 / 5),
        "best_exact_thresh": -3.0,
        "best_f1": pytest.approx((2 + 1 - 1 + 2 / 3 + 1) / 5),
        "best_f1_thresh": 2.0,
    }
    for name in ("exact", "f1"):
        best = best_thresholds(QUESTIONS)
        assert measure(QUESTIONS, best[f"best_{name}_thresh"])[name] == pytest.approx(best[f"best_{name}"])


def test_the_best_may_be_to_answer_nothing() -> None:
    wrong = [judged("dog", -5.0, "cat"), judged("dog", 1.0)]
    best = best_thresholds(wrong)
    assert best["best_exact"] == 0.5
    assert measure(wrong, best["best_exact_thresh"])["exact"] == 0.5


def test_questions_with_one_score_are_answered_together() -> None:
    tied = [judged("cat", 1.0, "cat"), judged("dog", 1.0), judged("dog", 1.0)]
    best = best_thresholds(tied)
    assert best["best_exact"] == pytest.approx(2 / 3)  # two without an answer
    assert measure(tied, best["best_exact_thresh"])["exact"] == pytest.approx(2 / 3)
