"""SPARQL's basic graph patterns as queries: triples, UNION and FILTER NOT EXISTS (W3C, SPARQL 1.1, sections 5 to 8).

An entity is called by its IRI without `<` and `>`, between which any name may stand here, and a literal, however the
query writes it, as the graph's reader calls it. Solutions are a set, as with DISTINCT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from attrs import frozen
from lark import Token, Transformer, v_args

from peirce_queries.graphs.ntriples import XSD, MalformedError, term_name
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

_LITERAL = re.compile(r"""("{3}|'{3}|"|')(.*)\1(?:(@.*)|\^\^(.*))?""", re.DOTALL)
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_Part: TypeAlias = Formula | list[Atom]


@frozen
class _Select:
    """A query as it is written; names are tokens until the prefixes are known. asked: variables, or the token `*`."""

    prefixes: Mapping[str, str]
    asked: tuple[Token, ...]
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
            match token.type:
                case "A":
                    return _TYPE
                case "PREFIXED":
                    return full(token)
                case "LITERAL":
                    parts = _LITERAL.fullmatch(token)
                    assert parts is not None
                    _, inside, language, of = parts.groups()
                    kind = (
                        f"^^<{term_name(of) if of.startswith('<') else full(of)}>" if of else language or ""
                    )
                    return term_name(f'"{inside}"{kind}')
                case "INTEGER" | "DECIMAL" | "DOUBLE" | "BOOLEAN":
                    return f'"{token}"^^<{XSD}{token.type.lower()}>'
            return term_name(token)
        except MalformedError as error:
            raise error_at(text, token.start_pos or 0, str(error)) from None

    def full(name: str) -> str:
        prefix, _, rest = name.partition(":")
        if prefix not in select.prefixes:
            raise MalformedError(f"the prefix {prefix}: is not declared; begin with PREFIX {prefix}: <...>")
        return term_name(select.prefixes[prefix]) + rest

    def rename(atom: Atom) -> Atom:
        head, tail = (Constant(name_of_token(t.name)) if isinstance(t, Constant) else t for t in atom.terms)
        return Atom(name_of_token(atom.relation), head, tail)

    asked = [_variable(token).name for token in select.asked if token.type == "VARIABLE"]
    if not asked:  # a negation has no variables that are not bound outside
        asked = [each.name for each in Query(select.pattern).variables if not each.name.startswith("_:")]
        if not 0 < len(asked) < 3:
            problem = (
                f"* is {', '.join(asked) or 'no variable'} here; select one variable, or two different ones"
            )
            raise error_at(text, select.asked[0].start_pos or 0, problem)
    return pattern_query(text, with_atoms(select.pattern, rename), asked)


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """Turns the parse into formulas."""

    negation = Not

    def select(self, *parts: Any) -> _Select:
        prefixes: dict[str, str] = dict(part for part in parts if isinstance(part, tuple))
        return _Select(prefixes, tuple(part for part in parts if isinstance(part, Token)), parts[-1])

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
