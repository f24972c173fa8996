"""What makes problems and decides them, by name; and blocks of problems, which any worker makes alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from random import Random
from typing import Protocol

from peirce.errors import InputError, unknown
from peirce_relations.calculi.algebra import RANDOM, calculi, calculus
from peirce_relations.calculi.offpath import LEVELS, OffPath
from peirce_relations.calculi.problems import Paths
from peirce_relations.calculi.reach import Reach
from peirce_relations.graphs import Problem

BLOCK = 250
"""Problems of a block."""


class Source(Protocol):
    """A kind of problems with exact answers; `branches` are the numbers of paths that it has if none are asked for."""

    name: str
    branches: tuple[int, ...]

    def make(self, steps: int, branches: int, rng: Random) -> Problem:
        """A problem with `branches` paths of `steps` edges between the two nodes that are asked for."""

    def possible(self, problem: Problem) -> list[str]:
        """The possible answers: exactly one for problems of `make`. Raises InconsistentError if there is none."""

    def decided_pairs(self, problem: Problem) -> list[tuple[int, int, str]]:
        """The pairs of nodes with one possible relation, and it. Raises InconsistentError if a pair has none."""


@cache
def source(name: str, longest: int = 1) -> Source:
    """The source of problems of a name.

    Args:
        name: a calculus, such as `rcc8`; `random:N:SEED`, `associative:N:SEED`, `reach`, or `offpath:LEVEL`.
        longest: the most edges of a path in the problems to be made.

    Raises:
        InputError: there is none; the message lists them.
    """
    if name == "reach":
        return Reach()
    if match := re.fullmatch(r"offpath:(\d)", name):
        return OffPath(int(match[1]))
    known = calculi()
    if name not in known and not re.match("(random|associative)(:|$)", name):
        others = ("reach", *(f"offpath:{level}" for level in LEVELS))
        raise InputError(unknown("algebra", name, [*known, *RANDOM, *others]))
    return Paths(calculus(name), longest)


def block(
    paths: Source, sizes: Mapping[str, tuple[int, ...]], seed: int, number: int, count: int
) -> Iterator[Problem]:
    """The problems of one block, which depend on the seed and its number alone.

    Args:
        paths: what makes them; paths of an algebra as long as the longest.
        sizes: `steps` and `branches`, each drawn evenly.
        seed: of all blocks.
        number: of this block.
        count: how many problems it has.
    """
    rng = Random(f"relations/1/{paths.name}/{seed}/{number}")
    for _ in range(count):
        yield paths.make(rng.choice(sizes["steps"]), rng.choice(sizes["branches"]), rng)


def lines(
    name: str, steps: tuple[int, ...], branches: tuple[int, ...], seed: int, count: int, number: int
) -> str:
    """One block of `count` problems as JSON lines; the last block is shorter."""
    some = min(BLOCK, count - number * BLOCK)
    problems = block(source(name, max(steps)), {"steps": steps, "branches": branches}, seed, number, some)
    return "".join(problem.line() for problem in problems)
