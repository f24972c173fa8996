"""openCypher's MATCH as queries: paths, NOT of a path or of EXISTS in WHERE, and UNION (openCypher 9).

An entity is a node with its name in it, `({name: "alga"})`, under whatever key, and a relation is a type. Edges may be
the same edge, as if each stood in a MATCH of its own; openCypher takes different ones within one MATCH.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from attrs import frozen
from lark import Token, Transformer, v_args

from peirce_queries.languages.language import (
    Atom,
    Constant,
    Formula,
    Not,
    Or,
    Query,
    Variable,
    operands,
    replace_terms,
)
from peirce_queries.languages.parsing import MisplacedError, name_of, read
from peirce_queries.languages.patterns import check_negations, conjunction, error_at_name, pattern_query

_IS = ""
"""The relation of a node's variable and its entity, within a pattern."""


@frozen
class _Single:
    """One MATCH ... RETURN: the parts of its pattern, and the names of what is asked for."""

    parts: tuple[Formula, ...]
    answers: tuple[str, ...]

    def __str__(self) -> str:
        return str(conjunction(self.parts))


def parse_cypher(text: str) -> Query:
    """Read a query that returns one variable, or two for pairs; a `QueryError` shows what it cannot be."""
    singles: tuple[_Single, ...] = read(text, "cypher.lark", _Build, _operands)
    queries = []
    for single in singles:
        entities = {
            part.head: part.tail for part in single.parts if isinstance(part, Atom) and part.relation == _IS
        }
        edges = [part for part in single.parts if not isinstance(part, Atom) or part.relation != _IS]
        if not any(isinstance(edge, Atom) for edge in edges):
            raise error_at_name(text, single.answers[0], "the pattern has no edge, such as -[:isa]->")
        pattern = replace_terms(conjunction(edges), entities)
        check_negations(text, pattern)
        queries.append(pattern_query(text, pattern, single.answers))
    if len({query.pairs for query in queries}) > 1:
        raise error_at_name(
            text, singles[1].answers[0], "all queries of a UNION must return as many variables"
        )
    return queries[0] if len(queries) == 1 else Query(Or(tuple(query.formula for query in queries)))


def _operands(node: tuple[_Single, ...] | _Single | Formula) -> tuple[Any, ...]:
    return node if isinstance(node, tuple) else node.parts if isinstance(node, _Single) else operands(node)


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """Turns the parse into parts of patterns; the name of a variable is a token, which knows its place."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count()

    def start(self, *singles: _Single) -> tuple[_Single, ...]:
        return singles

    def single(self, *parts: Any) -> _Single:
        names = tuple(_bare(part) for part in parts if isinstance(part, Token))
        return _Single(tuple(each for part in parts if isinstance(part, list) for each in part), names)

    def alias(self, name: Token) -> None:
        """Drop the name of a column."""

    def absent(self, *paths: list[Formula]) -> list[Formula]:
        parts = [part for path in paths for part in path]
        for part in parts:
            if isinstance(part, Atom) and part.relation == _IS:
                place = getattr(part.head.name, "start_pos", 0)
                raise MisplacedError(
                    place, f"{part.head} is an entity; say so in MATCH, or leave {part.head} out"
                )
        return [Not(conjunction(parts))]

    def path(self, first: list[Any], *rest: Any) -> list[Formula]:
        nodes, found = [first, *rest[1::2]], list[Formula]()
        for (head, _), (relation, forth), (tail, _) in zip(nodes, rest[::2], nodes[1:], strict=False):
            found.append(Atom(relation, head, tail) if forth else Atom(relation, tail, head))
        return found + [Atom(_IS, term, entity) for term, entity in nodes if entity is not None]

    def node(self, *parts: Any) -> tuple[Any, Constant | None]:
        *name, _, entity = parts
        named = None if entity is None else Constant(name_of(entity))
        if name:
            return Variable(_bare(name[0])), named
        return named or Variable(f"(){next(self._numbers)}"), None

    def edge(self, *parts: Token) -> tuple[str, bool]:
        kinds = [part.type for part in parts]
        if ("LEFT" in kinds) == ("RIGHT" in kinds):
            raise MisplacedError(
                parts[0].start_pos or 0, "an edge needs one direction: -[:isa]-> or <-[:isa]-"
            )
        return _bare([part for part in parts if part.type == "NAME"][-1]), "RIGHT" in kinds


def _bare(name: Token) -> Token:
    return name.update(value=name.strip("`"))
