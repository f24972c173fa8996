"""openCypher's MATCH as queries: paths, NOT of a path or of EXISTS in WHERE, and UNION (openCypher 9).

An entity is a node with its name in it, `({name: "alga"})`, under whatever key, and a relation is a type. Edges may be
the same edge, as if each stood in a MATCH of its own; openCypher takes different ones within one MATCH.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from peirce_queries.languages.parsing import MisplacedError, error_at, name_of, read
from peirce_queries.languages.patterns import check_negations, conjunction, error_at_name, pattern_query

_IS, _CALLED = "", "[]"
"""The relation of a node's variable to its entity, or to itself where it stands alone; of an edge's to its type."""


@frozen
class _Single:
    """One MATCH ... RETURN: the parts of its pattern, the names of what is asked for, and those of its columns."""

    parts: tuple[Formula, ...]
    answers: tuple[Token, ...]
    columns: tuple[Token, ...]

    def __str__(self) -> str:
        return str(conjunction(self.parts))


def parse_cypher(text: str) -> Query:
    """Read a query that returns one variable, or two for pairs; a `QueryError` shows what it cannot be."""
    singles: tuple[_Single, ...] = read(text, "cypher.lark", _Build, _operands)
    queries = []
    for single in singles:
        edges, entities = _named_once(text, single.parts)
        if not any(isinstance(edge, Atom) for edge in edges):
            raise error_at_name(text, single.answers[0], "the pattern has no edge, such as -[:isa]->")
        pattern = replace_terms(conjunction(edges), entities)
        check_negations(text, pattern)
        queries.append(pattern_query(text, pattern, single.answers))
        if single.columns != singles[0].columns:
            problem = f"all queries of a UNION return the columns {', '.join(singles[0].columns)}; rename them with AS"
            raise error_at(text, single.columns[0].start_pos or 0, problem)
        if len({*single.columns}) < len(single.columns):
            raise error_at(text, single.columns[-1].start_pos or 0, "two columns have one name")
    return queries[0] if len(queries) == 1 else Query(Or(tuple(query.formula for query in queries)))


def _named_once(text: str, parts: Sequence[Formula]) -> tuple[list[Formula], dict[Variable, Constant]]:
    """The edges of a pattern, and the entities that its variables are; each name must mean one thing.

    openCypher gives a repeated edge the ends and the type of the first, and a node the properties of all its mentions.
    """
    marks = [part for part in parts if isinstance(part, Atom) and part.relation in (_IS, _CALLED)]
    edges = [part for part in parts if part not in marks]
    nodes = {mark.head for mark in marks if mark.relation == _IS}
    nodes.update(*(Query(edge).variables for edge in edges))
    entities, called = dict[Any, Any](), set[Any]()
    for mark in marks:
        name, problem = mark.head, ""
        if mark.relation == _CALLED:
            if name in called | nodes:
                what = "two edges" if name in called else "a node and an edge"
                problem = (
                    f"{name} names {what}; give each a name of its own, and write an edge that is one once"
                )
            called.add(name)
        elif mark.tail != name and entities.setdefault(name, mark.tail) != mark.tail:
            problem = (
                f"the node {name} is {entities[name]} and {mark.tail}, which no node is; nothing can match"
            )
        if problem:
            raise error_at(text, getattr(name.name, "start_pos", 0), problem)
    return edges, entities


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
        items = [part for part in parts if isinstance(part, tuple)]
        pattern = tuple(each for part in parts if isinstance(part, list) for each in part)
        return _Single(pattern, tuple(name for name, _ in items), tuple(column for _, column in items))

    def item(self, *names: Token) -> tuple[Token, Token]:
        return _bare(names[0]), _bare(names[-1])

    def absent(self, *paths: list[Formula]) -> list[Formula]:
        parts, names = list[Formula](), list[Formula]()
        for part in (part for path in paths for part in path):
            if isinstance(part, Atom) and part.relation == _IS:
                what = "stands without an edge" if part.tail == part.head else "is an entity"
                problem = f"{part.head} {what}; say so in MATCH, or leave {part.head} out"
                raise MisplacedError(getattr(part.head.name, "start_pos", 0), problem)
            (names if isinstance(part, Atom) and part.relation == _CALLED else parts).append(part)
        return [Not(conjunction(parts)), *names]

    def path(self, first: list[Any], *rest: Any) -> list[Formula]:
        nodes, found = [first, *rest[1::2]], list[Formula]()
        for (head, _), (relation, forth, name), (tail, _) in zip(nodes, rest[::2], nodes[1:], strict=False):
            found.append(Atom(relation, head, tail) if forth else Atom(relation, tail, head))
            found += [Atom(_CALLED, Variable(name), Constant(relation))] if name else []
        return found + [Atom(_IS, term, entity or term) for term, entity in nodes if entity or not rest]

    def node(self, *parts: Any) -> tuple[Any, Constant | None]:
        *name, _, entity = parts
        named = None if entity is None else Constant(name_of(entity))
        if name:
            return Variable(_bare(name[0])), named
        return named or Variable(f"(){next(self._numbers)}"), None

    def edge(self, *parts: Token) -> tuple[str, bool, Token | None]:
        kinds = [part.type for part in parts]
        if ("LEFT" in kinds) == ("RIGHT" in kinds):
            raise MisplacedError(
                parts[0].start_pos or 0, "an edge needs one direction: -[:isa]-> or <-[:isa]-"
            )
        *name, relation = (_bare(part) for part in parts if part.type == "NAME")
        return relation, "RIGHT" in kinds, name[0] if name else None


def _bare(name: Token) -> Token:
    return name.update(value=name.strip("`"))
