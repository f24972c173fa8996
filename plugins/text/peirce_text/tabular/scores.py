"""How well numbers are predicted, lists are ranked, and several labels a row are found: as numbers and as sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from peirce_text.tabular.columns import shown
from peirce_text.text.encoding import Ints

MOST_LINES, TOP = 20, 10
"""The most classes that are described, and the places of a ranking that count."""
ROUNDING = 1e-6
"""Predictions that spread less than this share of the numbers are one number, which float32 rounds here and there."""
Floats = NDArray[np.float64]


class Measures(Protocol):
    """What predictions are measured by."""

    @property
    def scores(self) -> dict[str, float]:
        """The metrics by name."""

    def sentences(self) -> Iterator[str]:
        """What a reader learns beyond them, the worst first."""


def class_sentences(
    classes: Sequence[str],
    there: Ints,
    predicted: Ints,
    right: Ints,
    more: Callable[[int], str] = lambda i: "",
) -> Iterator[str]:
    """One for each class that occurs, the one that is told apart worst first; and one about those that do not.

    Args:
        classes: their names.
        there, predicted, right: int64 [classes], how many there are, are predicted, and are predicted rightly.
        more: what else is said of a class.
    """
    f1 = f1_of(there, predicted, right)
    order = [i for i in np.lexsort((np.arange(len(there)), f1)) if there[i]]
    for i in order[:MOST_LINES]:
        precision, recall = right[i] / max(1, predicted[i]), right[i] / there[i]
        yield (
            f"{shown(classes[i])}: support {there[i]:,}, precision {precision:.3f}, recall {recall:.3f}, "
            f"F1 {f1[i]:.3f}{more(i)}"
        )
    if len(order) > MOST_LINES:
        yield f"and {len(order) - MOST_LINES:,} classes that are told apart better"
    if absent := [shown(name) for name, count in zip(classes, there, strict=True) if not count]:
        few = ", ".join(absent[:MOST_LINES]) + (", ..." if len(absent) > MOST_LINES else "")
        yield f"not measured, so with an F1 of 0, since none is here: {few}"


def f1_of(there: Any, predicted: Any, right: Any) -> Any:
    """F1 from how many there are, are predicted, and are predicted rightly."""
    return 2 * right / np.maximum(1, there + predicted)


@frozen(eq=False)
class LabelCounts:
    """How often each of several labels is found.

    Args:
        classes: the names of the labels.
        there, predicted, right: int64 [classes], how many there are, are predicted, and are predicted rightly.
        rows: how many rows there are.
        whole: how many have all their labels and no other.
    """

    classes: Sequence[str]
    there: Ints
    predicted: Ints
    right: Ints
    rows: int
    whole: int

    @classmethod
    def of(cls, classes: Sequence[str], right: NDArray[Any], predicted: NDArray[Any]) -> LabelCounts:
        """From the labels that rows have, and those that are predicted, 0 or 1 [n, classes] each."""
        one, two = right > 0, predicted > 0
        there, guessed, both = (each.sum(0) for each in (one, two, one & two))
        return cls(classes, there, guessed, both, len(one), int((one == two).all(1).sum()))

    @property
    def scores(self) -> dict[str, float]:
        """F1 over all labels of all rows, its mean over labels, and the share of rows without any mistake."""
        sums = (each.sum() for each in (self.there, self.predicted, self.right))
        mean = f1_of(self.there, self.predicted, self.right).mean()
        return {
            "micro_f1": float(f1_of(*sums)),
            "macro_f1": float(mean),
            "exact": self.whole / max(1, self.rows),
        }

    def sentences(self) -> Iterator[str]:
        """One for each label, the one that is found worst first."""
        return class_sentences(self.classes, self.there, self.predicted, self.right)


@frozen(eq=False)
class Errors:
    """How far predicted numbers are off.

    Args:
        right: the numbers, [n].
        predicted: the predicted ones, [n].
    """

    right: Floats
    predicted: Floats

    @property
    def scores(self) -> dict[str, float]:
        """The mean and the root of the mean square of the errors, the share of the variance that is explained, and the
        correlations of the numbers and of their ranks; these are 0 where one side is the same everywhere."""
        right, predicted = self.right, self.predicted
        square, spread = np.square(predicted - right).mean(), right.var()
        flat = np.ptp(predicted) <= ROUNDING * np.ptp(right)
        ranks = (_ranks(right), _ranks(predicted))
        return {
            "mae": float(np.abs(predicted - right).mean()),
            "rmse": float(np.sqrt(square)),
            "r2": float(1 - square / spread) if spread else 0.0,
            "pearson": 0.0 if flat or not spread else float(np.corrcoef(right, predicted)[0, 1]),
            "spearman": 0.0 if flat or not spread else float(np.corrcoef(*ranks)[0, 1]),
        }

    def sentences(self) -> Iterator[str]:
        """How large errors are."""
        half, most = np.quantile(np.abs(self.predicted - self.right), (0.5, 0.9))
        yield f"half of the predictions are off by at most {half:.4g}, nine of ten by at most {most:.4g}"


def _ranks(values: Floats) -> Floats:
    """The place of each value in their order; equal ones share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


@frozen(eq=False)
class Ranking:
    """How well the texts of each query are ranked.

    Args:
        queries: int64 [n], the query of each row.
        right: float64 [n], its score, not below zero.
        predicted: float64 [n], its predicted score.
    """

    queries: Ints
    right: Floats
    predicted: Floats

    def _lists(self) -> Iterator[Floats]:
        """The scores of each query whose texts differ, in the predicted order; of two at one place the worse first."""
        order = np.lexsort((self.right, -self.predicted, self.queries))
        ends = np.flatnonzero(np.diff(self.queries[order])) + 1
        for scores in np.split(self.right[order], ends):
            if np.ptp(scores):
                yield scores

    @property
    def scores(self) -> dict[str, float]:
        """Means over queries: of the discounted gain of the first ten over that of the best order, and of one over the
        place of the first text whose score is the query's highest."""
        discount = 1 / np.log2(np.arange(TOP) + 2)
        gains, places = list[float](), list[float]()
        for scores in self._lists():
            found, best = (each[:TOP] @ discount[: len(each)] for each in (scores, np.sort(scores)[::-1]))
            gains.append(float(found / best))
            places.append(1 / (1 + int(scores.argmax())))
        return {f"ndcg_{TOP}": float(np.mean(gains or [0.0])), "mrr": float(np.mean(places or [0.0]))}

    def sentences(self) -> Iterator[str]:
        """How many queries are measured."""
        count, lists = len(np.unique(self.queries)), sum(1 for _ in self._lists())
        yield f"{lists:,} of {count:,} queries have texts of different scores, and are measured"
