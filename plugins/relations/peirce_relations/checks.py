"""The check of the conformance suite for calculi of relations."""

from __future__ import annotations

from random import Random

from peirce.errors import InputError, RegistryError
from peirce_relations.calculi.algebra import calculus
from peirce_relations.calculi.problems import Paths
from peirce_testing import BrokenError, Case, NotApplicableError, check

PROBLEMS = 20


@check("calculi")
def relation_algebra(case: Case) -> None:
    """A calculus keeps the laws of relation algebras, but perhaps associativity, and its problems have one answer.
    Path consistency leaves that answer for the ends of two edges.
    """
    try:
        algebra = calculus(case.entry.name, case.registry)
    except RegistryError as error:
        raise BrokenError(str(error)) from error
    paths = Paths(algebra, 2)
    try:
        problems = [paths.make(2, 1, Random(seed)) for seed in range(PROBLEMS)]
    except InputError as error:
        raise NotApplicableError(f"no two relations compose to a single one: {error}") from error
    for problem in problems:
        if (possible := paths.possible(problem)) != [problem.answer]:
            raise BrokenError(
                f"{problem.labels} imply {possible}, but the answer of the problem is {problem.answer!r}"
            )
