"""Generated problems of an algebra: B paths of K edges between two nodes, which leave exactly one relation.

A path's edges compose to a set of relations; what the sets of all paths have in common is left for the two ends. Paths
meet at their ends alone, so this is what path consistency leaves as well. An answer is drawn first, then paths, evenly
among those whose set holds it, until no other relation is left.

That what is left is possible at all is known of RCC-8 and of intervals. Algebras that are drawn may have no models that
could tell, so path consistency decides by definition; paths that it finds a contradiction in are drawn again.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from random import Random

import numpy as np

from peirce.errors import InputError
from peirce_relations.calculi.algebra import ASSOCIATIVE, RelationAlgebra, broken_laws
from peirce_relations.calculi.closure import InconsistentError, closure
from peirce_relations.graphs import Problem

TRIES = 2000
"""So many times the paths of a problem are drawn before its sizes count as impossible."""


class Paths:
    """The paths of an algebra by the set of relations that they compose to.

    A set is an integer of bits. `counts[k][set]` is how many paths of k edges compose to a set; each is a first edge
    before a path of k - 1 edges.
    """

    def __init__(self, algebra: RelationAlgebra, longest: int) -> None:
        self.name, self.algebra, size = algebra.name, algebra, len(algebra.relations)
        # Where composition is not associative, three longer paths all but always contradict each other.
        self.branches: tuple[int, ...] = (1,) if ASSOCIATIVE in broken_laws(algebra) else (1, 2, 3)
        bits = 1 << np.arange(size, dtype=object)
        rows = [[int(bits[algebra.composition[r, s]].sum()) for s in range(size)] for r in range(size)]

        def before(first: int, rest: int) -> int:
            joined = 0
            for s in range(size):
                if rest >> s & 1:
                    joined |= rows[first][s]
            return joined

        self.counts: list[dict[int, int]] = [{}, {1 << r: 1 for r in range(size)}]
        self.steps: list[dict[int, list[tuple[int, int]]]] = [{}, {}]
        for _ in range(2, longest + 1):
            counts: dict[int, int] = defaultdict(int)
            steps: dict[int, list[tuple[int, int]]] = defaultdict(list)
            for rest, count in self.counts[-1].items():
                for first in range(size):
                    joined = before(first, rest)
                    if joined:
                        counts[joined] += count
                        steps[joined].append((first, rest))
            self.counts.append(dict(counts))
            self.steps.append(dict(steps))

    def draw(self, length: int, composed: int, rng: Random) -> list[int]:
        """The edges of one of the paths of a length that compose to a set, each as likely as the others."""
        edges = []
        while length > 1:
            choices = self.steps[length][composed]
            weights = [self.counts[length - 1][rest] for _, rest in choices]
            first, composed = rng.choices(choices, weights)[0]
            edges.append(first)
            length -= 1
        return [*edges, composed.bit_length() - 1]

    def make(self, steps: int, branches: int, rng: Random) -> Problem:
        """One problem with `branches` paths of `steps` edges.

        Raises:
            InputError: no such problem was found.
        """
        algebra, sets = self.algebra, self.counts[steps]
        for _ in range(TRIES):
            answer = rng.randrange(len(algebra.relations))
            holding = [(composed, count) for composed, count in sets.items() if composed >> answer & 1]
            if branches == 1:
                holding = [(composed, count) for composed, count in holding if composed == 1 << answer]
            if not holding:
                continue
            chosen = rng.choices(*zip(*holding, strict=True), k=branches)
            left = ~0
            for composed in chosen:
                left &= composed
            if left == 1 << answer:
                problem = _graph(self, steps, chosen, answer, rng)
                if algebra.decided_by_closure or self._is_answer(problem):
                    return problem
        raise InputError(
            f"no problem of {algebra.name} with {branches} paths of {steps} edges was found whose answer is one "
            "relation; ask for fewer paths or edges"
        )

    def possible(self, problem: Problem) -> list[str]:
        """The relations that path consistency leaves for the pair that is asked for.

        Raises:
            InconsistentError: the edges contradict each other.
            InputError: a relation is unknown.
        """
        left = closure(self.algebra, problem.nodes, problem.edges, problem.labels)[problem.query]
        return [self.algebra.relations[r] for r in left.nonzero()[0]]

    def decided_pairs(self, problem: Problem) -> list[tuple[int, int, str]]:
        """Every two nodes of which path consistency leaves one relation, and that relation.

        Raises:
            InconsistentError, InputError: as `possible`.
        """
        left = closure(self.algebra, problem.nodes, problem.edges, problem.labels)
        one = np.argwhere((left.sum(2) == 1) & ~np.eye(problem.nodes, dtype=bool)).tolist()
        return [(x, y, self.algebra.relations[left[x, y].argmax()]) for x, y in one]

    def _is_answer(self, problem: Problem) -> bool:
        try:
            return self.possible(problem) == [problem.answer]
        except InconsistentError:
            return False


def _graph(paths: Paths, steps: int, chosen: list[int], answer: int, rng: Random) -> Problem:
    """The graph of paths that compose to these sets; the ends are the first and the last node."""
    names, last = paths.algebra.relations, len(chosen) * (steps - 1) + 1
    edges: list[tuple[int, int]] = []
    labels: list[str] = []
    fresh = 1
    for composed in chosen:
        middle = list(range(fresh, fresh + steps - 1))
        fresh += steps - 1
        nodes = [0, *middle, last]
        edges += pairwise(nodes)
        labels += [names[r] for r in paths.draw(steps, composed, rng)]
    return Problem(
        nodes=last + 1, edges=tuple(edges), labels=tuple(labels), query=(0, last), answer=names[answer],
        steps=steps, paths=len(chosen),
    )  # fmt: skip
