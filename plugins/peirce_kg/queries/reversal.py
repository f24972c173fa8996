"""Reversal of queries: the same query written from its end to its beginning (TEGA, Appendix C and Table 13)."""

from __future__ import annotations

from collections.abc import Iterator

from peirce_kg.queries.language import And, Atom, Formula, Not, Or, Query, chained


def reverse(query: Query) -> Query:
    """The query with the operands of each conjunction and disjunction in reverse order; it means the same.

    Parentheses stay where they are: `((a)&(b))&(c)` becomes `((c)&(b))&(a)`, as in Table 13, and a second reversal
    gives the query back.
    """
    return Query(reversed_formula(query.formula))


def reversed_formula(formula: Formula) -> Formula:
    """The formula with the operands of each conjunction and disjunction in reverse order."""
    if isinstance(formula, Atom):
        return formula
    if isinstance(formula, Not):
        return Not(reversed_formula(formula.operand))
    connective = type(formula)
    operands = [reversed_formula(operand) for operand in chained(formula, connective)]
    return _refilled(formula, connective, reversed(operands))


def _refilled(formula: Formula, connective: type[And | Or], operands: Iterator[Formula]) -> Formula:
    """The chain in the same groups, with other operands."""
    if isinstance(formula, connective):
        return connective(tuple(_refilled(operand, connective, operands) for operand in formula.operands))
    return next(operands)
