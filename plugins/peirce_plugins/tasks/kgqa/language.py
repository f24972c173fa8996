"""The query language: existential first-order formulas with one free variable, parsed, printed and normalised.

A query such as `(r1(s1,e1))&(!(r2(s2,e1)))&(r3(e1,f))` asks for the entities f for which some e1 makes the formula
true. Every existential variable is quantified outermost, over the whole formula (TEGA, section 2.2, eq. 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, TypeAlias, cast

from attrs import frozen
from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from peirce.errors import TaskError

MAX_LENGTH = 20_000
"""Characters that a query may have."""
MAX_DEPTH = 50
"""How deep parentheses and negations may nest."""
MAX_CONJUNCTIONS = 1024
"""Conjunctions that a disjunctive normal form may have."""

_VARIABLE = re.compile(r"f|e[1-9][0-9]*")
_BARE = re.compile(r"[^\s(),&|!\"'\\]+")
_PLACEHOLDER = re.compile(r"[rs][1-9][0-9]*")
_ESCAPES = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "r": "\r", "t": "\t"}
_TOKENS = {
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "VBAR": "'|'",
    "AMPERSAND": "'&'",
    "BANG": "'!'",
    "NAME": "a name",
    "QUOTED": "a quoted name",
    "$END": "the end of the query",
}


class QueryError(TaskError):
    """A query that cannot be read; the message shows the column."""


@frozen
class Variable:
    """A variable: `f` is free, `e1`, `e2`, ... are existential."""

    name: str

    def __str__(self) -> str:
        return self.name


@frozen
class Constant:
    """An entity by name or id, or a placeholder such as `s1` in an abstract query."""

    name: str

    def __str__(self) -> str:
        return _quoted(self.name) if _VARIABLE.fullmatch(self.name) else _printed(self.name)


Term: TypeAlias = Variable | Constant


@frozen
class Atom:
    """`relation(head, tail)`."""

    relation: str
    head: Term
    tail: Term

    def __str__(self) -> str:
        return f"{_printed(self.relation)}({self.head},{self.tail})"

    @property
    def terms(self) -> tuple[Term, Term]:
        """Head and tail."""
        return self.head, self.tail


@frozen
class Not:
    """The negation of a formula."""

    operand: Formula

    def __str__(self) -> str:
        return f"!({self.operand})"


@frozen
class And:
    """A conjunction of two or more formulas."""

    operands: tuple[Formula, ...]

    def __str__(self) -> str:
        return "&".join(f"({operand})" for operand in self.operands)


@frozen
class Or:
    """A disjunction of two or more formulas."""

    operands: tuple[Formula, ...]

    def __str__(self) -> str:
        return "|".join(f"({operand})" for operand in self.operands)


Formula: TypeAlias = Atom | Not | And | Or


@frozen
class Literal:
    """An atom or its negation."""

    atom: Atom
    positive: bool = True


Conjunction: TypeAlias = tuple[Literal, ...]


FREE = Variable("f")
"""The free variable, whose values are the answers."""


@frozen
class Query:
    """A formula with the free variable f; `str(query)` parses to the same query."""

    formula: Formula

    def __str__(self) -> str:
        return str(self.formula)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The atoms in order of appearance, repetitions included."""
        return tuple(_atoms(self.formula))

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations in order of first appearance."""
        return tuple(dict.fromkeys(atom.relation for atom in self.atoms))

    @property
    def constants(self) -> tuple[str, ...]:
        """The entities in order of first appearance."""
        terms = (term for atom in self.atoms for term in atom.terms)
        return tuple(dict.fromkeys(term.name for term in terms if isinstance(term, Constant)))

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables in order of first appearance."""
        terms = (term for atom in self.atoms for term in atom.terms)
        return tuple(dict.fromkeys(term for term in terms if isinstance(term, Variable)))

    @property
    def abstract(self) -> bool:
        """Whether every relation and entity is a placeholder, r1, r2, ... or s1, s2, ..."""
        return all(
            _PLACEHOLDER.fullmatch(name) and name[0] == kind
            for kind, names in (("r", self.relations), ("s", self.constants))
            for name in names
        )

    def ground(self, grounding: Mapping[str, str]) -> Query:
        """Replace placeholders by names.

        Raises:
            QueryError: a placeholder of the query is missing from `grounding`, or the other way round.
        """
        names = {*self.relations, *self.constants}
        if names != set(grounding):
            missing, extra = sorted(names - set(grounding)), sorted(set(grounding) - names)
            raise QueryError(
                f"the grounding does not fit {self}: "
                + "; ".join(
                    f"{what} {', '.join(n)}" for what, n in (("missing", missing), ("not in it", extra)) if n
                )
            )
        return Query(_renamed(self.formula, grounding))

    def conjunctions(self) -> tuple[Conjunction, ...]:
        """The disjunctive normal form (eq. 2 of TEGA): negations at the atoms, each conjunction without repetitions.

        Raises:
            QueryError: there would be more than `MAX_CONJUNCTIONS`.
        """
        found = _normal(self.formula, True)
        return tuple(dict.fromkeys(tuple(dict.fromkeys(conjunction)) for conjunction in found))


def parse(text: str) -> Query:
    """Read a query in EFO syntax.

    `&`, `|`, `!` and parentheses combine atoms `relation(head,tail)`. `f` is the free variable and `e1`, `e2`, ... are
    existential ones; any other name is an entity. A name with spaces or punctuation, and an entity that is called like
    a variable, stands in quotes.

    Raises:
        QueryError: the text is no query; the message shows the column.
    """
    if len(text) > MAX_LENGTH:
        raise QueryError(f"the query has {len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        _check_depth(text)
        formula = cast(Formula, _parser().parse(text))
    except UnexpectedCharacters as error:
        position = error.pos_in_stream or 0
        raise _error(text, position, _about_character(text, position)) from None
    except UnexpectedToken as error:
        raise _error(text, _end(text, error), _about_token(error)) from None
    except _Misplaced as error:
        raise _error(text, error.position, error.problem) from None
    query = Query(formula)
    if FREE not in query.variables:
        raise _error(text, 0, "the free variable f, which stands for the answer, does not occur")
    return query


class _Misplaced(Exception):  # noqa: N818  (becomes a QueryError)
    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position, self.problem = position, problem


class _Build(Transformer[Token, Formula]):
    """Turns the parse into formulas; runs inside the parser, so that nothing recurses."""

    def start(self, children: list[Any]) -> Formula:
        return children[0]

    def disjunction(self, children: list[Any]) -> Formula:
        return Or(tuple(children))

    def conjunction(self, children: list[Any]) -> Formula:
        return And(tuple(children))

    def negation(self, children: list[Any]) -> Formula:
        return Not(children[0])

    def atom(self, children: list[Token]) -> Formula:
        relation, head, tail = children
        return Atom(_text(relation), _term(head), _term(tail))


@cache
def _parser() -> Lark:
    grammar = files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", transformer=_Build())


def _check_depth(text: str) -> None:
    depth, negations = 0, []
    for token in _parser().lex(text):
        if token.type == "BANG":
            negations.append(depth)
        elif token.type == "LPAR":
            depth += 1
        elif token.type == "RPAR":
            depth = max(depth - 1, 0)
        if token.type in ("RPAR", "AMPERSAND", "VBAR"):
            while negations and negations[-1] >= depth:
                negations.pop()
        if depth + len(negations) > MAX_DEPTH:
            raise _error(text, token.start_pos or 0, f"the query nests deeper than {MAX_DEPTH} levels")


def _text(token: Token) -> str:
    if token.type == "NAME":
        return str(token)
    start = token.start_pos or 0
    parts = []
    inside = iter(enumerate(token[1:-1], start + 1))
    for position, character in inside:
        if character == "\\":
            _, escaped = next(inside)
            if escaped not in _ESCAPES:
                raise _Misplaced(position, f"unknown escape \\{escaped}; write \\\\ for a backslash")
            character = _ESCAPES[escaped]
        parts.append(character)
    if not parts:
        raise _Misplaced(start, "a name may not be empty")
    return "".join(parts)


def _term(token: Token) -> Term:
    if token.type == "NAME" and _VARIABLE.fullmatch(token):
        return Variable(str(token))
    return Constant(_text(token))


def _printed(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(name: str) -> str:
    for character, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        name = name.replace(character, escape)
    return f'"{name}"'


def _error(text: str, position: int, problem: str) -> QueryError:
    """The problem, the column, and the line with a caret under it; long lines are cut around the caret."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    column = position - start
    first = max(0, column - 60)
    shown = line[first : column + 40].replace("\t", " ")
    where = (
        f"column {column + 1}"
        if "\n" not in text
        else f"line {text.count(chr(10), 0, position) + 1}, column {column + 1}"
    )
    return QueryError(f"{where}: {problem}\n  {shown}\n  {' ' * (column - first)}^")


def _about_character(text: str, position: int) -> str:
    character = text[position]
    if character in "\"'":
        return f"the quote {character} is not closed"
    return f"{character!r} cannot stand here; a name with it must stand in quotes"


def _end(text: str, error: UnexpectedInput) -> int:
    token = getattr(error, "token", None)
    if token is None or token.type == "$END" or token.start_pos is None:
        return len(text.rstrip())
    return int(token.start_pos)


def _about_token(error: UnexpectedToken) -> str:
    found = "the end of the query" if error.token.type == "$END" else repr(str(error.token))
    wanted = sorted(_TOKENS.get(name, name) for name in error.accepts or error.expected)
    return f"{found} cannot stand here; expected {' or '.join(wanted)}"


def _atoms(formula: Formula) -> Iterator[Atom]:
    if isinstance(formula, Atom):
        yield formula
    elif isinstance(formula, Not):
        yield from _atoms(formula.operand)
    else:
        for operand in formula.operands:
            yield from _atoms(operand)


def _renamed(formula: Formula, names: Mapping[str, str]) -> Formula:
    if isinstance(formula, Atom):
        head, tail = (Constant(names[t.name]) if isinstance(t, Constant) else t for t in formula.terms)
        return Atom(names[formula.relation], head, tail)
    if isinstance(formula, Not):
        return Not(_renamed(formula.operand, names))
    return type(formula)(tuple(_renamed(operand, names) for operand in formula.operands))


def _normal(formula: Formula, positive: bool) -> list[Conjunction]:
    if isinstance(formula, Atom):
        return [(Literal(formula, positive),)]
    if isinstance(formula, Not):
        return _normal(formula.operand, not positive)
    parts = [_normal(operand, positive) for operand in formula.operands]
    if isinstance(formula, Or) == positive:
        joined = [conjunction for part in parts for conjunction in part]
    else:
        count = 1
        for part in parts:
            count *= len(part)
            _check_size(count)
        joined = [sum(choice, ()) for choice in product(*parts)]
    _check_size(len(joined))
    return joined


def _check_size(count: int) -> None:
    if count > MAX_CONJUNCTIONS:
        raise QueryError(
            f"the query's disjunctive normal form has more than {MAX_CONJUNCTIONS} conjunctions; split the query"
        )
