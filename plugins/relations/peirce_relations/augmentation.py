"""Further pairs to learn from: what the two-edge problems of a training set say of the inner pairs of longer ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from attrs import evolve

from peirce_relations.graphs import Problem

Compositions = Mapping[tuple[str, str], str]
"""What two relations, one after the other, compose to."""


def compositions(problems: Iterable[Problem]) -> Compositions:
    """The compositions that problems of two edges in a row show; those that show several answers are left out."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for each in problems:
        if each.answer is not None and len(each.edges) == 2:
            labels = dict(zip(each.edges, each.labels, strict=True))
            one, other = each.query
            for (x, middle), label in labels.items():
                if x == one and (middle, other) in labels:
                    found[label, labels[middle, other]].add(each.answer)
    return {pair: answers.pop() for pair, answers in found.items() if len(answers) == 1}


def add_inferred_pairs(problem: Problem, composed: Compositions) -> Problem:
    """The problem with all pairs whose relation follows by compositions from its edges and its answer.

    A pair for which two ways give two relations is left out, and nothing follows from it.
    """
    known = dict(zip(problem.edges, problem.labels, strict=True))
    if problem.answer is not None:
        known.setdefault(problem.query, problem.answer)
    while True:
        found: dict[tuple[int, int], set[str]] = defaultdict(set)
        for (x, middle), first in known.items():
            for (start, y), second in known.items():
                if start == middle and x != y and (x, y) not in known and (first, second) in composed:
                    found[x, y].add(composed[first, second])
        fresh = {pair: names.pop() for pair, names in found.items() if len(names) == 1}
        if not fresh:
            return evolve(problem, also=tuple((x, y, name) for (x, y), name in sorted(known.items())))
        known |= fresh
