"""The Lisp-like syntax of queries (TEGA, Table 12): operations on sets of entities, parsed and printed.

`(p,(r),X)` is the set of entities that r leads to from X, which is an entity `(s)` or a set; `(i,X,Y,...)` intersects,
`(u,X,Y,...)` unites, and `(n,X)` is the complement of X. There are no variables, so a set is used once.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

from attrs import frozen
from lark import Lark, Token, Transformer

from peirce_kg.queries.language import Constant
from peirce_kg.queries.reading import (
    VARIABLE,
    MisplacedError,
    check_length,
    deeper,
    name_of,
    parser,
    printed,
    read,
)


@frozen
class Projection:
    """`(p,(relation),source)`: the tails of a relation whose heads are in the source."""

    relation: str
    source: Constant | SetExpression

    def __str__(self) -> str:
        source = f"({self.source})" if isinstance(self.source, Constant) else str(self.source)
        return f"(p,({printed(self.relation)}),{source})"


@frozen
class Intersection:
    """`(i,X,Y,...)`: what two or more sets have in common."""

    operands: tuple[SetExpression, ...]

    def __str__(self) -> str:
        return f"(i,{','.join(map(str, self.operands))})"


@frozen
class Union:
    """`(u,X,Y,...)`: what is in one of two or more sets."""

    operands: tuple[SetExpression, ...]

    def __str__(self) -> str:
        return f"(u,{','.join(map(str, self.operands))})"


@frozen
class Complement:
    """`(n,X)`: all entities that are not in a set."""

    operand: SetExpression

    def __str__(self) -> str:
        return f"(n,{self.operand})"


SetExpression: TypeAlias = Projection | Intersection | Union | Complement


def parse_lisp(text: str) -> SetExpression:
    """Read a query in the Lisp-like syntax; names are quoted as in EFO syntax.

    Raises:
        QueryError: the text is no query; the message shows the column.
    """
    expression: SetExpression = read(text, _parser()).value
    check_length(str(expression))
    return expression


@frozen
class _Read:
    """A name or a set. start: where it stands; depth: operators one in another; bare: a name without quotes."""

    value: str | SetExpression
    start: int
    depth: int = 0
    bare: bool = False


class _Build(Transformer[Token, _Read]):
    """Turns the parse into set expressions."""

    def start(self, children: list[_Read]) -> _Read:
        _set(children[0])
        return children[0]

    def name(self, children: list[Token]) -> _Read:
        (token,) = children
        return _Read(name_of(token), token.start_pos or 0, bare=token.type == "NAME")

    def operation(self, children: list[Any]) -> _Read:
        word, *operands = children
        start = word.start_pos or 0
        return _Read(_operation(word, start, operands), start, deeper(operands))


def _operation(word: Token, start: int, operands: list[_Read]) -> SetExpression:
    match str(word), len(operands):
        case "p", 2:
            return Projection(_relation(operands[0]), _source(operands[1]))
        case "i", count if count > 1:
            return Intersection(tuple(map(_set, operands)))
        case "u", count if count > 1:
            return Union(tuple(map(_set, operands)))
        case "n", 1:
            return Complement(_set(operands[0]))
        case ("p" | "i" | "u" | "n") as known, count:
            needed = {"p": "a relation and a set", "n": "one set"}.get(known, "two or more sets")
            raise MisplacedError(start, f"{known} takes {needed}, not {count} operand{'s' * (count > 1)}")
    raise MisplacedError(start, f"{word} is no operator; there are p, i, u and n")


def _relation(operand: _Read) -> str:
    if not isinstance(operand.value, str):
        raise MisplacedError(operand.start, "a relation, such as (r1), must stand here")
    return operand.value


def _source(operand: _Read) -> Constant | SetExpression:
    if not isinstance(operand.value, str):
        return operand.value
    if operand.bare and VARIABLE.fullmatch(operand.value):
        raise MisplacedError(
            operand.start,
            f"this syntax has no variables; an entity that is called {operand.value} stands in quotes",
        )
    return Constant(operand.value)


def _set(operand: _Read) -> SetExpression:
    if isinstance(operand.value, str):
        raise MisplacedError(operand.start, "a set must stand here; a name stands within p alone")
    return operand.value


@cache
def _parser() -> Lark:
    return parser("lisp.lark", _Build())
