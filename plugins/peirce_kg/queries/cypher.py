"""openCypher's MATCH as queries: paths, pattern predicates with NOT, AND and OR, and UNION (openCypher 9).

An entity is a node with its name in it, `({name: "alga"})`, under whatever key, and a relation is a type. Edges may be
the same edge, as if each stood in a MATCH of its own; openCypher takes different ones within one MATCH.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, TypeAlias

from attrs import frozen
from lark import Token, Transformer, v_args

from peirce_kg.queries.language import (
    Atom,
    Constant,
    Formula,
    Not,
    Or,
    Query,
    Term,
    Variable,
    operands,
    replaced,
)
from peirce_kg.queries.parsing import name_of, read
from peirce_kg.queries.patterns import asked, bound, joined, misplaced, own_value

_IS = ""
"""The relation of a node's variable and its entity, within a pattern."""
_UNNAMED = "()"
"""How the variables of nodes begin that the text does not name."""


@frozen
class _Single:
    """MATCH ... WHERE ... RETURN ...: its edges, its predicates, and the names of what is asked for."""

    edges: tuple[Formula, ...]
    predicates: tuple[Formula, ...]
    answers: tuple[str, ...]

    def __str__(self) -> str:
        return str(joined((*self.edges, *self.predicates)))


_Node: TypeAlias = tuple[_Single, ...] | _Single | Formula


def parse_cypher(text: str) -> Query:
    """Read a query that returns one variable, or two for pairs; a `QueryError` shows what it cannot be."""
    singles: tuple[_Single, ...] = read(text, "cypher.lark", _Build, _operands)
    queries = [_query(text, single) for single in singles]
    if len({query.pairs for query in queries}) > 1:
        raise misplaced(text, singles[1].answers[0], "all queries of a UNION return as many variables")
    return queries[0] if len(queries) == 1 else Query(Or(tuple(query.formula for query in queries)))


def _query(text: str, single: _Single) -> Query:
    """The query of one MATCH ... RETURN."""
    entities = {
        edge.head: edge.tail for edge in single.edges if isinstance(edge, Atom) and edge.relation == _IS
    }
    edges = [edge for edge in single.edges if not (isinstance(edge, Atom) and edge.relation == _IS)]
    if not edges:
        raise misplaced(text, single.answers[0], "the pattern has no edge, such as -[:isa]->")
    known = bound(joined(edges)) | entities.keys()
    for predicate in single.predicates:
        for atom, negated in _atoms(predicate):
            for variable in (term for term in atom.terms if isinstance(term, Variable) and term not in known):
                unnamed = variable.name.startswith(_UNNAMED)
                if negated:
                    raise own_value(text, Variable(_UNNAMED) if unnamed else variable)
                if not unnamed:
                    raise misplaced(
                        text, variable.name, f"{variable} stands in WHERE alone; bind it in MATCH"
                    )
            if atom.relation == _IS:
                raise misplaced(
                    text, str(atom.head), f"{atom.head} is an entity; say so in MATCH, or leave it out"
                )
    formula = joined([replaced(part, entities) for part in (*edges, *single.predicates)])
    return asked(text, formula, single.answers)


def _atoms(formula: Formula, negated: bool = False) -> Iterator[tuple[Atom, bool]]:
    """The atoms of a predicate, each with whether a negation is over it."""
    if isinstance(formula, Atom):
        yield formula, negated
    for operand in operands(formula):
        yield from _atoms(operand, negated or isinstance(formula, Not))


def _operands(node: _Node) -> tuple[Any, ...]:
    if isinstance(node, _Single):
        return (*node.edges, *node.predicates)
    return node if isinstance(node, tuple) else operands(node)


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """Turns the parse into edges and predicates."""

    negation = Not

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count()

    def union(self, *singles: _Single) -> tuple[_Single, ...]:
        return singles

    def single(self, *parts: Any) -> _Single:
        matches = [part for part in parts if isinstance(part, tuple)]
        edges, predicates = (tuple(one for match in matches for one in match[place]) for place in (0, 1))
        return _Single(edges, predicates, tuple(_bare(part) for part in parts if isinstance(part, Token)))

    def alias(self, name: Token) -> None:
        """What a column is called matters to nobody."""

    def match(self, *parts: Any) -> tuple[list[Formula], list[Formula]]:
        edges = [edge for part in parts if isinstance(part, list) for edge in part]
        return edges, [part for part in parts if not isinstance(part, list)]

    def exists(self, *parts: Any) -> Formula:
        edges, predicates = self.match(*parts)
        return joined([*edges, *predicates])

    def where(self, predicate: Formula) -> Formula:
        return predicate

    def pattern(self, edges: list[Formula]) -> Formula:
        return joined(edges)

    def path(self, first: list[Any], *rest: Any) -> list[Formula]:
        nodes, found = [first, *rest[1::2]], list[Formula]()
        for (head, _), (left, types, right), (tail, _) in zip(nodes, rest[::2], nodes[1:], strict=False):
            ends = [(head, tail)] * (right or not left) + [(tail, head)] * (left or not right)
            ways = tuple(Atom(name, *pair) for name in types for pair in ends)
            found.append(ways[0] if len(ways) == 1 else Or(ways))
        return found + [Atom(_IS, term, entity) for term, entity in nodes if entity is not None]

    def node(self, *parts: Any) -> tuple[Term, Constant | None]:
        *name, entity = parts
        if name:
            return Variable(_bare(name[0])), entity
        return (entity, None) if entity else (Variable(f"{_UNNAMED}{next(self._numbers)}"), None)

    def named(self, key: Token, name: Token) -> Constant:
        return Constant(name_of(name))

    def edge(self, *parts: Any) -> tuple[bool, list[str], bool]:
        kinds = {part.type for part in parts if isinstance(part, Token)}
        (types,) = (part for part in parts if isinstance(part, list))
        return "LEFT" in kinds, types, "RIGHT" in kinds

    def types(self, *names: Token) -> list[str]:
        return [_bare(name) for name in names]

    def disjunction(self, *parts: Formula) -> Formula:
        return Or(parts)

    def conjunction(self, *parts: Formula) -> Formula:
        return joined(parts)


def _bare(name: Token) -> str:
    return str(name).strip("`")
