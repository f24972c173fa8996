"""A query as a program on a stack of fuzzy sets: what UltraQuery's operations say of it, and whether they can.

The operations are: an entity, every entity, a relation or its inverse that leads on from a set, and, or, not. Entities
and relations stand in it by name, so that the program of an abstract query answers all groundings of it.

A set does not tell which of its members stood for a variable. So a negated atom of an existential variable, as in
r1(s1,e1) & !r2(e1,f), is the complement of what the whole set leads to, as in the published code; by the formula's own
semantics one member is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Literal, TypeAlias

from attrs import evolve, frozen

from peirce_queries import (
    FREE,
    And,
    AnyQuery,
    Atom,
    Complement,
    Constant,
    Formula,
    Intersection,
    Not,
    Or,
    Projection,
    Query,
    QueryError,
    SetExpression,
    Term,
    Variable,
    components,
    disjunctive,
    flat_operands,
    to_query,
)

Operation: TypeAlias = Literal["entity", "every", "project", "and", "or", "not"]


@frozen
class Step:
    """One operation.

    Args:
        operation: what is done; `and` and `or` join the last two sets.
        name: the entity, or the relation that a projection follows.
        inverse: whether it follows the relation from tails to heads.
        variable: whose values the set that the step leaves on the stack are, where the step ends one.
    """

    operation: Operation
    name: str = ""
    inverse: bool = False
    variable: Variable | None = None


Program: TypeAlias = tuple[Step, ...]


class NoProgramError(QueryError):
    """A query that operations on sets cannot say, and the reason."""

    def __init__(self, query: object, reason: str) -> None:
        super().__init__(
            f"{query} cannot be answered by projections, &, | and !: {reason}; use --exact, or `peirce kg answer` "
            "for files"
        )
        self.reason = reason


class _NoFormError(Exception):
    """Why a formula cannot become a program."""


@lru_cache(maxsize=1024)
def program_of(query: AnyQuery) -> Program:
    """The program of a query, or else of its disjunctive normal form; of operations on sets without a formula, theirs.

    Raises:
        NoProgramError: there is none; the message says why. QueryError: it asks for pairs.
    """
    try:
        formula = to_query(query)
    except QueryError:
        if isinstance(query, Query):
            raise
        return _of_sets(query)
    try:
        return tuple(_steps(formula.formula, FREE))
    except _NoFormError as reason:
        try:
            return tuple(_steps(disjunctive(formula).formula, FREE))
        except (_NoFormError, QueryError):
            raise NoProgramError(formula, str(reason)) from None


def why_no_program(query: Query) -> str | None:
    """Why operations on sets cannot say a query; None if they can."""
    try:
        program_of(query)
    except NoProgramError as error:
        return error.reason
    return None


def _of_sets(expression: SetExpression) -> Program:
    """The program of a set expression; the sets that relations lead on from are called e1, e2, ... from the left."""
    numbers = count(1)

    def steps(part: SetExpression | Constant) -> Iterator[Step]:
        match part:
            case Constant(name):
                yield Step("entity", name)
            case Projection(relation, source):
                *before, last = steps(source)
                yield from before
                between = None if isinstance(source, Constant) else Variable(f"e{next(numbers)}")
                yield evolve(last, variable=between)
                yield Step("project", relation)
            case Complement(operand):
                yield from steps(operand)
                yield Step("not")
            case _:
                yield from _fold([[*steps(each)] for each in part.operands], isinstance(part, Intersection))

    return tuple(steps(expression))


def _steps(formula: Formula, target: Variable) -> list[Step]:
    """The set of the target's values, the only variable of the formula that occurs outside it."""
    match formula:
        case Atom(relation, head, tail):
            if target not in (head, tail) or head == tail:
                raise _NoFormError(f"{formula} does not lead from something else to {target}")
            inverse = head == target
            return [_start(tail if inverse else head), Step("project", relation, inverse)]
        case Not(operand):
            if len(Query(operand).variables) > 1 and not isinstance(operand, Atom):
                raise _NoFormError(f"a variable stands under the negation of {operand}")
            return [*_steps(operand, target), Step("not")]
        case Or(operands):
            # A variable that several operands share may be one of each: exists distributes over |.
            return [*_fold([_steps(operand, target) for operand in operands], False)]
        case And():
            parts = components(flat_operands(formula, And), target)
            return [*_fold([_component(part, target) for part in parts], True)]


def _component(conjuncts: list[Formula], target: Variable) -> list[Step]:
    """The set of conjuncts that share variables with each other, and with nothing else but the target."""
    if len(conjuncts) == 1:
        return _steps(conjuncts[0], target)
    links = [conjunct for conjunct in conjuncts if target in Query(conjunct).variables]
    if len(links) != 1:
        shown = " and ".join(map(str, links)) or " and ".join(map(str, conjuncts))
        how = "need one value of a variable" if links else f"does not lead to {target}"
        raise _NoFormError(f"{shown} {how}")
    link = links[0]
    atom = link.operand if isinstance(link, Not) else link
    if not isinstance(atom, Atom) or len({*Query(atom).variables}) != 2:
        raise _NoFormError(f"{link} ties {target} to variables by more than one atom")
    inverse = atom.head == target
    between = atom.tail if inverse else atom.head
    assert isinstance(between, Variable)
    rest = [conjunct for conjunct in conjuncts if conjunct is not link]
    inner = _steps(rest[0] if len(rest) == 1 else And(tuple(rest)), between)
    inner[-1] = evolve(inner[-1], variable=between)
    negation = [Step("not")] if isinstance(link, Not) else []
    return [*inner, Step("project", atom.relation, inverse), *negation]


def _start(term: Term) -> Step:
    return Step("entity", term.name) if isinstance(term, Constant) else Step("every", variable=term)


def _fold(parts: Sequence[list[Step]], all_of: bool) -> Iterator[Step]:
    """The programs one after another, folded from the left."""
    for number, part in enumerate(parts):
        yield from part
        if number:
            yield Step("and" if all_of else "or")
