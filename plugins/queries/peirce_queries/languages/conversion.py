"""Reads queries in any syntax, and takes them from EFO syntax to the Lisp-like one and back.

A set expression names no variables and uses each set once, and its complement is one of sets. So it can say neither
several edges between two variables, nor cycles, nor existential leaves, nor what a negated atom says of an existential
variable; 25 of TEGA's 55 types are left (Table 12). The other way, the complement of a set that an existential
variable makes has no formula with all quantifiers outermost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any, TypeAlias

from attrs import evolve, frozen

from peirce.registry import Registry, class_named, default_catalogue
from peirce_queries.hooks import SYNTAXES
from peirce_queries.languages.language import (
    FREE,
    And,
    Atom,
    Constant,
    Formula,
    Not,
    Or,
    Query,
    Variable,
    canonical,
    checked_pairs,
    disjunctive,
    flat_operands,
    parse,
)
from peirce_queries.languages.lisp import Complement, Intersection, Projection, SetExpression, Union
from peirce_queries.languages.parsing import MAX_DEPTH, QueryError, check_length
from peirce_queries.languages.syntaxes import Syntax

AnyQuery: TypeAlias = Query | SetExpression
"""A query as a formula, or as operations on sets, some of which no formula says."""
_SHOWN = 200
"""Characters of a formula that a message shows."""


class NoLispFormError(QueryError):
    """A query that the Lisp-like syntax cannot say, and the reason."""

    def __init__(self, query: Query, reason: str) -> None:
        super().__init__(f"{_shown(query)} has no Lisp-like form: {reason}; keep the EFO syntax for it")
        self.reason = reason


def parse_any(text: str) -> AnyQuery:
    """Read a query in the syntax that its text begins as, one of those that are registered, or else in EFO syntax.

    Raises:
        QueryError: the text is not a query; the message shows the column.
    """
    found = [(name, syntax) for name, syntax in _syntaxes(default_catalogue()) if syntax.begins.match(text)]
    if len(found) > 1:
        names = " and ".join(name for name, _ in found)
        raise QueryError(
            f"the query fits the syntaxes {names}; disable the plug-in of one with `peirce plugins disable`"
        )
    return found[0][1].read(text) if found else parse(text, pairs=True)


@cache
def _syntaxes(catalogue: Registry) -> tuple[tuple[str, type[Syntax]], ...]:
    """The registered syntaxes by name."""
    names = catalogue.names(SYNTAXES)
    return tuple((name, class_named(SYNTAXES, name, Syntax, catalogue)) for name in names)


def to_query(query: AnyQuery, *, pairs: bool = False) -> Query:
    """The formula of a query.

    Args:
        query: what `parse_any` gave.
        pairs: whether it may have two free variables.

    Raises:
        QueryError: no formula says it, or it asks for pairs and may not.
    """
    return checked_pairs(query if isinstance(query, Query) else to_efo(query), pairs=pairs)


def read_query(text: str, *, pairs: bool = False) -> Query:
    """The formula of a text in any syntax; see `parse_any` and `to_query`."""
    return to_query(parse_any(text), pairs=pairs)


def to_efo(expression: SetExpression) -> Query:
    """The formula of a set expression.

    Raises:
        QueryError: a complement is taken of a set that an existential variable makes, or the formula is too long.
    """
    query = canonical(Query(_formula(expression, FREE, True, count(1))))
    check_length(str(query))
    return query


def to_lisp(query: Query) -> SetExpression:
    """The set expression of a formula, or else of its disjunctive normal form.

    Raises:
        NoLispFormError: there is none; the message says why. QueryError: it is too long.
    """
    try:
        expression = _expression(query.formula, _Place(FREE))
    except _NoFormError as reason:
        try:
            expression = _expression(disjunctive(query).formula, _Place(FREE))
        except (_NoFormError, QueryError):
            raise NoLispFormError(query, str(reason)) from None
    check_length(str(expression))
    return expression


class _NoFormError(Exception):
    """Why a formula has no Lisp-like form; becomes a `QueryError`."""


def _formula(expression: SetExpression, target: Variable, positive: bool, fresh: Iterator[int]) -> Formula:
    """What says that the target is in a set; each existential variable is a new one.

    positive: whether it stands under an even number of negations; fresh: numbers that no variable has.
    """
    match expression:
        case Projection(relation, source):
            if isinstance(source, Constant):
                return Atom(relation, source, target)
            if not positive:
                raise QueryError(
                    f"{expression} stands in a complement (n,...): it would say something of every entity in {source}, "
                    "where EFO's existential variables can say it of one; negate a p of a named entity, or an "
                    "intersection or union of such"
                )
            between = Variable(f"e{next(fresh)}")
            inner = _formula(source, between, positive, fresh)
            return And((*flat_operands(inner, And), Atom(relation, between, target)))
        case Intersection(operands):
            parts = [_formula(operand, target, positive, fresh) for operand in operands]
            return And(tuple(conjunct for part in parts for conjunct in flat_operands(part, And)))
        case Union(operands):
            return Or(tuple(_formula(operand, target, positive, fresh) for operand in operands))
        case Complement(operand):
            return Not(_formula(operand, target, not positive, fresh))


@frozen
class _Place:
    """Where a set is looked for: the variable that it is the values of, and what stands around it."""

    target: Variable
    positive: bool = True
    depth: int = 1

    def deeper(self, **changes: Any) -> _Place:
        """The place of an operand."""
        if self.depth == MAX_DEPTH:
            raise _NoFormError(f"it would nest deeper than {MAX_DEPTH} levels")
        return evolve(self, depth=self.depth + 1, **changes)


def _expression(formula: Formula, place: _Place) -> SetExpression:
    """The set of the values of the place's target, the only variable of the formula that occurs outside it."""
    match formula:
        case Atom(relation, head, tail):
            if tail != place.target:
                raise _NoFormError(f"{formula} does not lead to {place.target}")
            if isinstance(head, Variable):
                raise _NoFormError(f"{formula} leads from a variable that nothing else leads to")
            return Projection(relation, head)
        case Not(operand):
            return Complement(_expression(operand, place.deeper(positive=not place.positive)))
        case Or(operands):
            # An existential variable that several operands share may be one of each: exists distributes over |.
            return Union(tuple(_expression(operand, place.deeper()) for operand in operands))
        case And():
            parts = components(flat_operands(formula, And), place.target)
            if len(parts) == 1:
                return _component(parts[0], place)
            return Intersection(tuple(_component(part, place.deeper()) for part in parts))


def _component(conjuncts: list[Formula], place: _Place) -> SetExpression:
    """The set of conjuncts that share existential variables with each other, and with nothing else."""
    if len(conjuncts) == 1:
        return _expression(conjuncts[0], place)
    target = place.target
    match [conjunct for conjunct in conjuncts if target in Query(conjunct).variables]:
        case []:
            raise _NoFormError(f"{_shown(And(tuple(conjuncts)))} does not lead to {target}")
        case [link, other, *_]:
            raise _NoFormError(f"{link} and {other} lead to {target} from variables that are not independent")
        case [link]:
            pass
    if not isinstance(link, Atom):
        raise _NoFormError(f"{link} ties {target} to a variable, which only an atom that is not negated may")
    if not isinstance(link.head, Variable) or link.tail != target or link.head == target:
        raise _NoFormError(f"{link} does not lead from a variable to {target}")
    if not place.positive:
        raise _NoFormError(f"the variable {link.head} stands under a negation")
    rest = [conjunct for conjunct in conjuncts if conjunct is not link]
    inner = rest[0] if len(rest) == 1 else And(tuple(rest))
    return Projection(link.relation, _expression(inner, place.deeper(target=link.head)))


def _shown(formula: Formula | Query) -> str:
    """A formula within a message, cut where it is long."""
    text = str(formula)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def components(conjuncts: Iterator[Formula], target: Variable) -> list[list[Formula]]:
    """The conjuncts in groups that share variables other than the target, each in the order of the formula."""
    groups: list[tuple[set[Variable], list[int]]] = []
    every = list(conjuncts)
    for number, conjunct in enumerate(every):
        variables, members = set(Query(conjunct).variables) - {target}, [number]
        for group in [group for group in groups if group[0] & variables]:
            groups.remove(group)
            variables, members = variables | group[0], group[1] + members
        groups.append((variables, members))
    return [
        [every[number] for number in sorted(members)]
        for _, members in sorted(groups, key=lambda g: min(g[1]))
    ]
