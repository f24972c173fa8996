"""The Lisp-like syntax of queries (TEGA, Table 12): operations on sets of entities, parsed and printed.

`(p,(r),X)` is the set of entities that r leads to from X, which is an entity `(s)` or a set; `(i,X,Y,...)` intersects,
`(u,X,Y,...)` unites, and `(n,X)` is the complement of X. There are no variables, so a set is used once.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from attrs import frozen
from lark import Token, Transformer, v_args

from peirce_queries.languages.language import Constant
from peirce_queries.languages.parsing import VARIABLE, MisplacedError, name_of, name_text, read


@frozen
class Projection:
    """`(p,(relation),source)`: the tails of a relation whose heads are in the source."""

    relation: str
    source: Constant | SetExpression

    def __str__(self) -> str:
        source = f"({self.source})" if isinstance(self.source, Constant) else str(self.source)
        return f"(p,({name_text(self.relation)}),{source})"


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
_Operand: TypeAlias = SetExpression | Token


def parse_lisp(text: str) -> SetExpression:
    """Read a query in the Lisp-like syntax; names are quoted as in EFO syntax.

    Raises:
        QueryError: the text is not a query; the message shows the column.
    """
    return cast(SetExpression, read(text, "lisp.lark", _Build, _operands))


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """Turns the parse into set expressions; a name stays a token until it is known what it is."""

    def start(self, operand: _Operand) -> SetExpression:
        return _set(operand)

    def name(self, token: Token) -> Token:
        return token

    def operation(self, word: Token, *operands: Any) -> SetExpression:
        match str(word), operands:
            case "p", [Token() as relation, source]:
                if isinstance(source, Token):
                    if source.type == "NAME" and VARIABLE.fullmatch(source):
                        problem = f"this syntax has no variables; an entity that is called {source} stands in quotes"
                        raise MisplacedError(source.start_pos or 0, problem)
                    source = Constant(name_of(source))
                return Projection(name_of(relation), source)
            case ("i" | "u") as known, [_, _, *_]:
                return (Intersection if known == "i" else Union)(tuple(map(_set, operands)))
            case "n", [operand]:
                return Complement(_set(operand))
            case ("p" | "i" | "u" | "n") as known, _:
                needed = {"p": "a relation, such as (r1), and a set", "n": "one set"}
                takes = needed.get(known, "two or more sets")
                raise MisplacedError(word.start_pos or 0, f"{known} takes {takes}")
        raise MisplacedError(word.start_pos or 0, f"{word} is not an operator; use p, i, u or n")


def _set(operand: _Operand) -> SetExpression:
    if isinstance(operand, Token):
        raise MisplacedError(operand.start_pos or 0, "expected a set; a name may only stand in p")
    return operand


def _operands(expression: SetExpression | Constant) -> tuple[SetExpression | Constant, ...]:
    match expression:
        case Intersection(operands) | Union(operands):
            return operands
        case Projection(_, operand) | Complement(operand):
            return (operand,)
    return ()
