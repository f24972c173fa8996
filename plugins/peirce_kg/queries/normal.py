"""Normal forms of queries: the disjunctive one, and the names of existential variables that make renamings equal."""

from __future__ import annotations

from peirce_kg.queries.language import (
    FREE,
    And,
    Atom,
    Constant,
    Formula,
    Literal,
    Not,
    Or,
    Query,
    Variable,
    with_atoms,
)
from peirce_kg.queries.parsing import check_length


def disjunctive(query: Query) -> Query:
    """The query in disjunctive normal form: an `|` of `&` of atoms and negated atoms (TEGA, eq. 2).

    Raises:
        QueryError: it would have more than `MAX_CONJUNCTIONS` conjunctions or `MAX_LENGTH` characters.
    """
    conjunctions = [
        _joined(And, [_literal(literal) for literal in conjunction]) for conjunction in query.conjunctions()
    ]
    normal = Query(_joined(Or, conjunctions))
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


def _literal(literal: Literal) -> Formula:
    return literal.atom if literal.positive else Not(literal.atom)


def _joined(connective: type[And | Or], operands: list[Formula]) -> Formula:
    return operands[0] if len(operands) == 1 else connective(tuple(operands))
