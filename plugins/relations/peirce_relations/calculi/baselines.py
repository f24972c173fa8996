"""What is reached without a network: the most frequent answer, and the best decision by the facts on paths alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from peirce_relations.calculi.offpath import on_paths
from peirce_relations.calculi.sources import Source
from peirce_relations.graphs import Problem


def majority(train: Sequence[Problem], test: Sequence[Problem]) -> list[str | None]:
    """The most frequent answer of the training problems, for each test problem."""
    return [Counter(each.answer for each in train).most_common(1)[0][0]] * len(test)


def path_only(known: Source, train: Sequence[Problem], test: Sequence[Problem]) -> list[str | None]:
    """An answer to each test problem by the facts on paths between the two nodes alone.

    The exact solver finds the answers that these facts leave. The decision is the answer that training problems
    with the same set have most often; where none has that set, the one of the set that all of them have most often.

    Args:
        known: decides the problems.
        train: what decisions are counted on.
        test: what is decided.
    """
    sets = [frozenset(known.possible(on_paths(each))) for each in (*train, *test)]
    counts: dict[frozenset[str], Counter[str | None]] = {}
    for left, problem in zip(sets, train, strict=False):
        counts.setdefault(left, Counter())[problem.answer] += 1
    every = Counter(each.answer for each in train)
    return [
        (counts.get(left) or Counter({answer: every[answer] for answer in sorted(left)})).most_common(1)[0][0]
        for left in sets[len(train) :]
    ]
