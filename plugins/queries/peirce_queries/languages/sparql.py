"""SPARQL's basic graph patterns as queries: triples, UNION and FILTER NOT EXISTS (W3C, SPARQL 1.1, sections 5 to 8).

An entity is called by its IRI without `<` and `>`, between which any name may stand here, and a literal as N-Triples
writes it. Solutions are a set, as with DISTINCT.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from attrs import frozen
from lark import Token, Transformer, v_args

from peirce_queries.graphs.ntriples import MalformedError, term_name
from peirce_queries.languages.language import (
    Atom,
    Constant,
    Formula,
    Not,
    Or,
    Query,
    Term,
    Variable,
    operands,
    with_atoms,
)
from peirce_queries.languages.parsing import MisplacedError, error_at, read
from peirce_queries.languages.patterns import check_negations, conjunction, pattern_query

_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_Part: TypeAlias = Formula | list[Atom]


@frozen
class _Select:
    """A query as it is written; names are tokens until the prefixes are known."""

    prefixes: Mapping[str, str]
    answers: tuple[str, ...]
    pattern: Formula

    def __str__(self) -> str:
        return str(self.pattern)


def parse_sparql(text: str) -> Query:
    """Read a SELECT query with one variable, or with two for pairs; a `QueryError` shows what it cannot be."""
    select: _Select = read(
        text,
        "sparql.lark",
        _Build,
        lambda node: (node.pattern,) if isinstance(node, _Select) else operands(node),
    )
    check_negations(text, select.pattern)

    def name_of_token(token: str) -> str:
        assert isinstance(token, Token)
        try:
            if token.type == "A":
                return _TYPE
            if token.type != "PREFIXED":
                return term_name(token)
            prefix, _, rest = token.partition(":")
            if prefix not in select.prefixes:
                raise MalformedError(
                    f"the prefix {prefix}: is not declared; begin with PREFIX {prefix}: <...>"
                )
            return term_name(select.prefixes[prefix]) + rest
        except MalformedError as error:
            raise error_at(text, token.start_pos or 0, str(error)) from None

    def rename(atom: Atom) -> Atom:
        head, tail = (Constant(name_of_token(t.name)) if isinstance(t, Constant) else t for t in atom.terms)
        return Atom(name_of_token(atom.relation), head, tail)

    return pattern_query(text, with_atoms(select.pattern, rename), select.answers)


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """Turns the parse into formulas."""

    negation = Not

    def select(self, *parts: Any) -> _Select:
        prefixes: dict[str, str] = dict(part for part in parts if isinstance(part, tuple))
        answers = tuple(_variable(part).name for part in parts if isinstance(part, Token))
        return _Select(prefixes, answers, parts[-1])

    def prefix(self, name: Token, iri: Token) -> tuple[str, str]:
        return name.rpartition(":")[0], str(iri)

    def group(self, *parts: _Part) -> Formula:
        return conjunction([one for part in parts for one in (part if isinstance(part, list) else [part])])

    def triples(self, subject: Token, *verbs: list[tuple[Token, Token]]) -> list[Atom]:
        return [Atom(verb, _term(subject), _term(tail)) for pairs in verbs for verb, tail in pairs]

    def verb(self, verb: Token, *tails: Token) -> list[tuple[Token, Token]]:
        return [(verb, tail) for tail in tails]

    def union(self, *groups: Formula) -> Formula:
        if len(groups) > 1:
            return Or(groups)
        # as a part of the outer group, a filter that is a group by itself would see what the outer one binds
        query = Query(groups[0])
        if isinstance(groups[0], Not) and query.variables:
            place = getattr(query.relations[0], "start_pos", 0)
            raise MisplacedError(place, "a filter alone in a group sees no variables; leave its braces out")
        return groups[0]


def _term(token: Token) -> Term:
    return _variable(token) if token.type == "VARIABLE" else Constant(token)


def _variable(token: Token) -> Variable:
    return Variable(token.replace("$", "?"))
