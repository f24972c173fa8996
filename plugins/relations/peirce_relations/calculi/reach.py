"""Reachability: whether one node can be reached from another along directed edges, which all have one label."""

from __future__ import annotations

from itertools import pairwise, permutations
from random import Random

from attrs import evolve

from peirce.errors import InputError, unknown
from peirce_relations.graphs import Problem

EDGE, ANSWERS = "to", ("apart", "reached")


class Reach:
    """B paths of K edges between two nodes, and a tail of K edges that leaves the second.

    At most one path has all its edges forwards. One edge of every other path is turned round, and one of the tail where
    the second node is reached; so the number of turned edges is the same for both answers, which are as likely.
    """

    name = "reach"
    branches: tuple[int, ...] = (1, 2, 3)

    def make(self, steps: int, branches: int, rng: Random) -> Problem:
        """One problem with `branches` paths of `steps` edges."""
        reached, last = rng.random() < 0.5, branches * (steps - 1) + 1
        whole = branches if not reached else rng.randrange(branches)
        edges: list[tuple[int, int]] = []
        for i in range(branches + 1):
            fresh = range(1 + i * (steps - 1), 1 + (i + 1) * (steps - 1))
            tail = range(last, last + steps + 1)
            walk = [*pairwise([0, *fresh, last] if i < branches else tail)]
            if i != whole:
                j = rng.randrange(steps)
                walk[j] = walk[j][::-1]
            edges += walk
        return Problem(
            nodes=last + steps + 1, edges=tuple(edges), labels=(EDGE,) * len(edges), query=(0, last),
            answer=ANSWERS[reached], steps=steps, paths=branches,
        )  # fmt: skip

    def possible(self, problem: Problem) -> list[str]:
        """The one answer.

        Raises:
            InputError: a label is unknown.
        """
        for label in problem.labels:
            if label != EDGE:
                raise InputError(unknown("relation", label, [EDGE]))
        seen = {problem.query[0]}
        while more := {y for x, y in problem.edges if x in seen} - seen:
            seen |= more
        return [ANSWERS[problem.query[1] in seen]]

    def decided_pairs(self, problem: Problem) -> list[tuple[int, int, str]]:
        """Every two nodes, and whether the one reaches the other."""
        pairs = permutations(range(problem.nodes), 2)
        return [(x, y, self.possible(evolve(problem, query=(x, y)))[0]) for x, y in pairs]
