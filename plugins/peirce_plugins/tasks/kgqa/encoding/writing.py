"""How a query is written for a model: the tokens of its EFO or Lisp-like text, forwards or reversed, and their kinds.

The commas are left out. Of the Lisp-like syntax, `i`, `u` and `n` are of the kinds of `&`, `|` and `!`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from peirce_plugins.tasks.kgqa.queries.conversion import to_lisp
from peirce_plugins.tasks.kgqa.queries.language import And, Atom, Constant, Formula, Not, Query, Term
from peirce_plugins.tasks.kgqa.queries.lisp import Complement, Intersection, Projection, SetExpression
from peirce_plugins.tasks.kgqa.queries.reversal import reverse

Syntax = Literal["efo", "lisp"]
"""The formal languages that queries are put to a model in."""
SYNTAXES: tuple[Syntax, ...] = get_args(Syntax)
SYMBOLS: dict[Syntax, tuple[str, ...]] = {
    "efo": ("(", ")", "&", "|", "!"),
    "lisp": ("(", ")", "i", "u", "n", "p"),
}
"""The symbols of each, in the order of their tokens."""
KINDS = ("parenthesis", "entity", "relation", "conjunction", "disjunction", "negation", "special")
"""The kinds of tokens by number: TEGA's six (section 6.1) and one more; variables are of the kind `entity`."""

Piece = tuple[str, str | Term]
"""A kind, and a symbol, the name of a relation, or a term."""


def written(query: Query, syntax: Syntax = "efo", *, reversed_: bool = False) -> Iterator[Piece]:
    """The tokens of a query, in order.

    Args:
        query: the query.
        syntax: the language that it is written in.
        reversed_: whether conjunctions and disjunctions are written from their end (Table 13).

    Raises:
        QueryError: the syntax has no way to write the query.
    """
    query = reverse(query) if reversed_ else query
    return _efo(query.formula) if syntax == "efo" else _lisp(to_lisp(query))


def _efo(formula: Formula) -> Iterator[Piece]:
    if isinstance(formula, Atom):
        yield "relation", formula.relation
        yield "parenthesis", "("
        yield "entity", formula.head
        yield "entity", formula.tail
        yield "parenthesis", ")"
    elif isinstance(formula, Not):
        yield "negation", "!"
        yield from _enclosed(_efo(formula.operand))
    else:
        kind, symbol = ("conjunction", "&") if isinstance(formula, And) else ("disjunction", "|")
        for number, operand in enumerate(formula.operands):
            if number:
                yield kind, symbol
            yield from _enclosed(_efo(operand))


def _lisp(expression: SetExpression | Constant) -> Iterator[Piece]:
    return _enclosed(_operation(expression))


def _operation(expression: SetExpression | Constant) -> Iterator[Piece]:
    if isinstance(expression, Constant):
        yield "entity", expression
    elif isinstance(expression, Projection):
        yield "special", "p"
        yield from _enclosed(iter([("relation", expression.relation)]))
        yield from _lisp(expression.source)
    elif isinstance(expression, Complement):
        yield "negation", "n"
        yield from _lisp(expression.operand)
    else:
        yield ("conjunction", "i") if isinstance(expression, Intersection) else ("disjunction", "u")
        for operand in expression.operands:
            yield from _lisp(operand)


def _enclosed(pieces: Iterator[Piece]) -> Iterator[Piece]:
    yield "parenthesis", "("
    yield from pieces
    yield "parenthesis", ")"
