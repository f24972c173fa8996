"""SQuAD's metrics: exact match and F1 of normalised answers, and the best threshold for having none.

Everything is a share of one. Answers are compared after lower-casing, without punctuation, without the words a, an and
the, and with single spaces. A question without an answer is right when nothing is predicted, and wrong otherwise.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)

Score = Callable[[str, str], float]


def normalise(answer: str) -> str:
    """An answer as it is compared."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact(answer: str, right: str) -> float:
    """Whether two answers are the same once normalised."""
    return float(normalise(answer) == normalise(right))


def f1(answer: str, right: str) -> float:
    """The harmonic mean of precision and recall of an answer's words, counted with repetition."""
    words, wanted = normalise(answer).split(), normalise(right).split()
    if not words or not wanted:
        return float(words == wanted)
    shared = sum((Counter(words) & Counter(wanted)).values())
    return 2 * shared / (len(words) + len(wanted))


def best_score(score: Score, answer: str, right: Sequence[str]) -> float:
    """The best score of an answer among those that count as right; none at all means that there is no answer.

    Right answers that nothing is left of once normalised do not count.
    """
    counted = [text for text in right if normalise(text)] or [""]
    return max(score(answer, text) for text in counted)


@frozen
class Judgement:
    """A question and what is predicted for it.

    Args:
        right: the answers that count as right; none where the context has no answer.
        answer: the best span.
        none: how much better having no answer scores than the best span; the higher, the surer.
    """

    right: tuple[str, ...]
    answer: str
    none: float

    @property
    def answerable(self) -> bool:
        """Whether the context has an answer."""
        return bool(self.right)


def measure(judged: Sequence[Judgement], threshold: float | None) -> dict[str, float]:
    """Exact match and F1.

    Args:
        judged: the questions.
        threshold: questions whose `none` is above it are given no answer; None answers all of them.

    Returns:
        `exact` and `f1`; with unanswerable questions also both for the answerable (`answerable_exact`, ...) and the
        unanswerable (`unanswerable_exact`, which F1 equals).
    """
    answers = ["" if threshold is not None and q.none > threshold else q.answer for q in judged]
    scores = {
        name: [best_score(score, answer, q.right) for answer, q in zip(answers, judged, strict=True)]
        for name, score in (("exact", exact), ("f1", f1))
    }
    measured = {name: _mean(values) for name, values in scores.items()}
    if all(q.answerable for q in judged):
        return measured
    for name, values in scores.items():
        answerable = [value for value, q in zip(values, judged, strict=True) if q.answerable]
        if answerable:
            measured[f"answerable_{name}"] = _mean(answerable)
    measured["unanswerable_exact"] = _mean(
        [value for value, q in zip(scores["exact"], judged, strict=True) if not q.answerable]
    )
    return measured


def best_thresholds(judged: Sequence[Judgement]) -> Mapping[str, float]:
    """The thresholds that give these questions the best exact match and the best F1, and what they give.

    Returns:
        `best_exact`, `best_exact_thresh`, `best_f1` and `best_f1_thresh`. Chosen on the questions that they are
        measured on, they are upper bounds there.
    """
    found: dict[str, float] = {}
    for name, score in (("exact", exact), ("f1", f1)):
        value, threshold = _best(judged, score)
        found |= {f"best_{name}": value, f"best_{name}_thresh": threshold}
    return found


def _best(judged: Sequence[Judgement], score: Score) -> tuple[float, float]:
    """Begin with no answer for any question, and answer them one after the other, the surest first."""
    ordered = sorted(judged, key=lambda q: q.none)
    current = best = float(sum(not q.answerable for q in judged))
    threshold = ordered[0].none - 1.0
    for i, question in enumerate(ordered):
        answered = best_score(score, question.answer, question.right)
        current += answered - (not question.answerable)
        last_of_equals = i + 1 == len(ordered) or ordered[i + 1].none > question.none
        if last_of_equals and current > best + 1e-9:
            best, threshold = current, question.none
    return best / len(judged), threshold


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
