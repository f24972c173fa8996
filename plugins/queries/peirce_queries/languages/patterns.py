"""What graph patterns of SPARQL and openCypher mean as formulas: the variables that they bind, and their names.

A negation looks at each solution of its own group. A variable of it that the group leaves open is one of its own: the
negation says something of every value of it, where EFO's existential variables can say it of one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from peirce_queries.languages.language import (
    FIRST,
    FREE,
    SECOND,
    And,
    Atom,
    Formula,
    Not,
    Or,
    Query,
    Variable,
    operands,
    replace_terms,
)
from peirce_queries.languages.parsing import QueryError, error_at


def conjunction(parts: Sequence[Formula]) -> Formula:
    """The conjunction of the parts of a group."""
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def bound(formula: Formula) -> set[Variable]:
    """The variables that every solution of a pattern has a value for."""
    match formula:
        case Atom():
            return {term for term in formula.terms if isinstance(term, Variable)}
        case And():
            return set[Variable]().union(*map(bound, formula.operands))
        case Or():
            return set.intersection(*map(bound, formula.operands))
    return set()


def check_negations(text: str, pattern: Formula) -> None:
    """Refuse negations with variables of their own; one within another sees what is bound outside of both."""
    known = bound(pattern)
    for part in pattern.operands if isinstance(pattern, And) else (pattern,):
        if not isinstance(part, Not):
            for inner in operands(part):
                check_negations(text, inner)
            continue
        for variable in Query(part).variables:
            if variable not in known:
                name = re.sub(r"^\(\)\d+$", "()", variable.name)
                problem = f"{name} stands in a negation alone, which then says something of every value of it"
                raise error_at_name(text, name, f"{problem}; bind it outside, in the same group")


def pattern_query(text: str, pattern: Formula, answers: Sequence[str]) -> Query:
    """The query of a pattern whose variables are called as in the text; `answers` are those that are asked for.

    Raises:
        QueryError: one of these is not always bound, or there are more than two.
    """
    if len(answers) > 2 or len({*answers}) < len(answers):
        raise error_at_name(text, answers[-1], "return one variable, or two different ones")
    for name in answers:
        if Variable(name) not in bound(pattern):
            raise error_at_name(
                text,
                name,
                f"{name} is returned, but some match leaves it unbound; bind it in every alternative",
            )
    names = dict(zip(map(Variable, answers), (FIRST, SECOND) if len(answers) > 1 else (FREE,), strict=True))
    others = [variable for variable in Query(pattern).variables if variable not in names]
    return Query(replace_terms(pattern, names | {old: Variable(f"e{i}") for i, old in enumerate(others, 1)}))


def error_at_name(text: str, name: str, problem: str) -> QueryError:
    """The error of a name, shown where the text has it first."""
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
    return error_at(text, found.start() if found else 0, problem)
