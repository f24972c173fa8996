"""The same query written in other ways: its disjunctive normal form, canonical names of variables, its reversal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from peirce_kg.queries.language import (
    FREE,
    And,
    Atom,
    Constant,
    Formula,
    Not,
    Or,
    Query,
    Variable,
    chained,
    with_atoms,
)
from peirce_kg.queries.parsing import check_length


def disjunctive(query: Query) -> Query:
    """The query in disjunctive normal form: an `|` of `&` of atoms and negated atoms (TEGA, eq. 2).

    Raises:
        QueryError: it would have more than `MAX_CONJUNCTIONS` conjunctions or `MAX_LENGTH` characters.
    """
    literals = [
        [x.atom if x.positive else Not(x.atom) for x in literals] for literals in query.conjunctions()
    ]
    normal = Query(_joined(Or, [_joined(And, operands) for operands in literals]))
    check_length(str(normal))
    return normal


def canonical(query: Query) -> Query:
    """The query with its existential variables called e1, e2, ... in the order of their first appearance."""
    existential = [variable for variable in query.variables if variable != FREE]
    names = {old: Variable(f"e{i}") for i, old in enumerate(existential, 1)}

    def renamed(atom: Atom) -> Atom:
        head, tail = (t if isinstance(t, Constant) else names.get(t, t) for t in atom.terms)
        return Atom(atom.relation, head, tail)

    return Query(with_atoms(query.formula, renamed))


def alpha_equivalent(left: Query, right: Query) -> bool:
    """Whether the queries differ by no more than the names of their existential variables.

    All are quantified over the whole formula, so that is a one-to-one renaming; the order of operands counts.
    """
    return canonical(left) == canonical(right)


def reverse(query: Query) -> Query:
    """The query written from its end to its beginning; it means the same (TEGA, Appendix C and Table 13).

    Parentheses stay where they are: `((a)&(b))&(c)` becomes `((c)&(b))&(a)`, as in Table 13, and a second reversal
    gives the query back.
    """
    return Query(_reversed(query.formula))


def _reversed(formula: Formula) -> Formula:
    if isinstance(formula, Atom):
        return formula
    if isinstance(formula, Not):
        return Not(_reversed(formula.operand))
    connective = type(formula)
    operands = [_reversed(operand) for operand in chained(formula, connective)]
    return _refilled(formula, connective, reversed(operands))


def _refilled(formula: Formula, connective: type[And | Or], operands: Iterator[Formula]) -> Formula:
    """The chain in the same groups, with other operands."""
    if isinstance(formula, connective):
        return connective(tuple(_refilled(operand, connective, operands) for operand in formula.operands))
    return next(operands)


def _joined(connective: type[And | Or], operands: Sequence[Formula]) -> Formula:
    return operands[0] if len(operands) == 1 else connective(tuple(operands))
