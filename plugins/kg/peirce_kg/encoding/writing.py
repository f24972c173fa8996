"""How a query is written for a model: the tokens of its EFO or Lisp-like text, forwards or reversed, and their kinds.

The commas are left out. Of the Lisp-like syntax, `i`, `u` and `n` are of the kinds of `&`, `|` and `!`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from peirce_queries import (
    And,
    Atom,
    Complement,
    Constant,
    Formula,
    Intersection,
    Not,
    Projection,
    Query,
    SetExpression,
    Term,
    Union,
    reverse,
    to_lisp,
)

Syntax = Literal["efo", "lisp", "sqe"]
"""The formal languages that queries are put to a model in; `sqe` is `lisp` with bare relations, as in SQE's code."""
SYNTAXES: tuple[Syntax, ...] = get_args(Syntax)
SYMBOLS: dict[Syntax, tuple[str, ...]] = {
    "efo": ("(", ")", "&", "|", "!"),
    "lisp": ("(", ")", "i", "u", "n", "p"),
    "sqe": ("(", ")", "i", "u", "n", "p"),
}
"""The symbols of each, in the order of their tokens."""
KINDS = ("parenthesis", "entity", "relation", "conjunction", "disjunction", "negation", "special")
"""The kinds of tokens by number: TEGA's six (section 6.1) and one more; variables are of the kind `entity`."""

Piece = tuple[str, str | Term]
"""A kind, and a symbol, the name of a relation, or a term."""
Mention = tuple[Literal["none", "relation", "head", "tail", "negation", "union"], tuple[Atom, ...]]
"""What a token of the EFO text is to the query, and the atoms that it belongs to."""

_OPENING: tuple[Piece, Mention] = ("parenthesis", "("), ("none", ())
_CLOSING: tuple[Piece, Mention] = ("parenthesis", ")"), ("none", ())
_AND: tuple[Piece, Mention] = ("conjunction", "&"), ("none", ())
_OR: tuple[Piece, Mention] = ("disjunction", "|"), ("union", ())


def query_tokens(query: Query, syntax: Syntax = "efo", *, reversed_: bool = False) -> Iterator[Piece]:
    """The tokens of a query, in order.

    Args:
        query: the query.
        syntax: the language that it is written in.
        reversed_: whether conjunctions and disjunctions are written from their end (Table 13).

    Raises:
        QueryError: the syntax does not support the query.
    """
    query = reverse(query) if reversed_ else query
    if syntax == "efo":
        return (piece for piece, _ in token_mentions(query.formula))
    return _lisp(to_lisp(query), bare=syntax == "sqe")


def token_mentions(formula: Formula) -> Iterator[tuple[Piece, Mention]]:
    """The tokens of a formula's EFO text, in order, each with what it mentions."""
    if isinstance(formula, Atom):
        yield ("relation", formula.relation), ("relation", (formula,))
        yield _OPENING
        yield ("entity", formula.head), ("head", (formula,))
        yield ("entity", formula.tail), ("tail", (formula,))
        yield _CLOSING
    elif isinstance(formula, Not):
        yield ("negation", "!"), ("negation", Query(formula).atoms)
        yield from _operand(formula.operand)
    else:
        for number, operand in enumerate(formula.operands):
            if number:
                yield _AND if isinstance(formula, And) else _OR
            yield from _operand(operand)


def _operand(formula: Formula) -> Iterator[tuple[Piece, Mention]]:
    yield _OPENING
    yield from token_mentions(formula)
    yield _CLOSING


def _lisp(expression: SetExpression | Constant, *, bare: bool) -> Iterator[Piece]:
    yield "parenthesis", "("
    match expression:
        case Constant():
            yield "entity", expression
        case Projection(relation, source):
            yield "special", "p"
            name: Piece = "relation", relation
            yield from (name,) if bare else (("parenthesis", "("), name, ("parenthesis", ")"))
            yield from _lisp(source, bare=bare)
        case Complement(operand):
            yield "negation", "n"
            yield from _lisp(operand, bare=bare)
        case Intersection(operands) | Union(operands):
            yield ("disjunction", "u") if isinstance(expression, Union) else ("conjunction", "i")
            for operand in operands:
                yield from _lisp(operand, bare=bare)
    yield "parenthesis", ")"
