"""What the syntaxes of queries share: names and quotes, bounds, and errors that point at a column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from peirce.errors import TaskError

MAX_LENGTH = 20_000
"""Characters that a query may have, as it is given and as it is printed."""
MAX_DEPTH = 50
"""How deep the operators of a query may nest."""

VARIABLE = re.compile(r"f|e[1-9][0-9]*")
"""Bare names that are variables."""
PAIR = ("f1", "f2")
"""Bare names that are variables where f does not occur."""
_WORD = re.compile(r"\w+|.", re.DOTALL)
_BARE = re.compile(r"[^\s(),&|!\"'\\]+")
_ESCAPES = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "r": "\r", "t": "\t"}
_WRITTEN = str.maketrans({c: f"\\{escape}" for escape, c in _ESCAPES.items() if c != "'"})
_TOKENS = {
    "LPAR": "'('", "RPAR": "')'", "COMMA": "','", "VBAR": "'|'", "AMPERSAND": "'&'", "BANG": "'!'",
    "NAME": "a name", "QUOTED": "a quoted name", "$END": "the end of the query",
    "DOT": "'.'", "SEMICOLON": "';'", "COLON": "':'", "MINUS": "'-'", "LBRACE": "'{'", "RBRACE": "'}'", "LSQB": "'['",
    "RSQB": "']'", "LEFT": "'<'", "RIGHT": "'>'", "A": "a", "VARIABLE": "a variable such as ?f", "IRI": "<a name>",
    "PREFIXED": "a prefixed name", "LITERAL": "a literal", "STAR": "*",
    **dict.fromkeys(("INTEGER", "DECIMAL", "DOUBLE", "BOOLEAN"), "a literal"),
}  # fmt: skip
_PARTS = {
    "sparql.lark": "of SPARQL, SELECT of one or two variables, triples, UNION and FILTER NOT EXISTS are read",
    "cypher.lark": "of openCypher, MATCH of single edges with a type each, WHERE NOT, EXISTS and UNION are read",
}
"""What is read of a language that says more, to stand in an error."""


class QueryError(TaskError):
    """A query that cannot be read or converted; the message of a parser shows the column."""


class MisplacedError(Exception):
    """Something in a text, found while it was parsed; becomes a `QueryError` that shows its column."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position, self.problem = position, problem


@cache
def _parser(grammar: str, build: type[Transformer[Token, Any]]) -> Lark:
    """The parser of a grammar beside this file. `build` runs inside it, so that no tree is walked recursively."""
    text = files(__package__).joinpath(grammar).read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer="basic", transformer=build())


def read(
    text: str, grammar: str, build: type[Transformer[Token, Any]], operands: Callable[[Any], Iterable[Any]]
) -> Any:
    """Parse a text.

    Args:
        text: the text.
        grammar: the grammar's file.
        build: what makes a query of the parse.
        operands: of an operator of the query, what it joins; nothing of others.

    Raises:
        QueryError: it is too long, nests too deeply, or does not follow the grammar; the message shows the column.
    """
    if len(text) > MAX_LENGTH:
        raise QueryError(f"the query has {len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        query = _parser(grammar, build).parse(text)
    except UnexpectedCharacters as error:
        position = error.pos_in_stream or 0
        wrong = _WORD.findall(text, position)[0]
        known = f"the quote {wrong} is not closed" if wrong in "\"'" else ""
        advice = _PARTS.get(grammar, "a name with it must stand in quotes")
        raise error_at(text, position, known or f"{wrong!r} cannot stand here; {advice}") from None
    except UnexpectedToken as error:
        ends = error.token.type == "$END"
        names = error.accepts or error.expected
        wanted = " or ".join(sorted({_TOKENS.get(name, name.strip("_")) for name in names}))
        found = _TOKENS["$END"] if ends else repr(str(error.token))
        position = len(text.rstrip()) if ends else error.token.start_pos or 0
        advice = f"; {_PARTS[grammar]}" if grammar in _PARTS else ""
        raise error_at(text, position, f"{found} cannot stand here; expected {wanted}{advice}") from None
    except MisplacedError as error:
        raise error_at(text, error.position, error.problem) from None
    level = [query]
    for _ in range(MAX_DEPTH + 1):
        level = [operand for node in level for operand in operands(node)]
    if level:
        raise QueryError(f"the query nests deeper than {MAX_DEPTH} levels")
    check_length(str(query))
    return query


def check_length(query: str) -> None:
    """Refuse, by a `QueryError`, a printed query that could not be read again, as it is longer than `MAX_LENGTH`."""
    if len(query) > MAX_LENGTH:
        long = f"the query, with all parentheses, has {len(query)} characters"
        raise QueryError(f"{long}; at most {MAX_LENGTH} are allowed, so split it")


def name_of(token: Token) -> str:
    """The name that a token stands for, quoted or not; a `MisplacedError` where it is empty or has a wrong escape."""
    if token.type == "NAME":
        return str(token)
    start = token.start_pos or 0
    parts = []
    inside = iter(enumerate(token[1:-1], start + 1))
    for position, character in inside:
        if character == "\\":
            _, escaped = next(inside)
            if escaped not in _ESCAPES:
                raise MisplacedError(position, f"unknown escape \\{escaped}; write \\\\ for a backslash")
            character = _ESCAPES[escaped]
        parts.append(character)
    if not parts:
        raise MisplacedError(start, "a name may not be empty")
    return "".join(parts)


def name_text(name: str) -> str:
    """A name as it stands in a query, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else quote(name)


def quote(name: str) -> str:
    """A name in quotes."""
    return '"' + name.translate(_WRITTEN) + '"'


def error_at(text: str, position: int, problem: str) -> QueryError:
    """The problem, the column, and the line with a caret under it; long lines are cut around the caret."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line, column = text[start : end if end >= 0 else len(text)], position - start
    first = max(0, column - 60)
    shown = line[first : column + 40].replace("\t", " ")
    row = f"line {text.count(chr(10), 0, position) + 1}, " if "\n" in text else ""
    return QueryError(f"{row}column {column + 1}: {problem}\n  {shown}\n  {' ' * (column - first)}^")
