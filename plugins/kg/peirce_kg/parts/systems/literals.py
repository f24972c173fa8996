"""What systems that execute queries are given, and what each of them declares of the queries that it supports.

A query is the literals of its disjunctive normal form, one a token. What stands at a literal's tail is the token
itself, so heads that rank entities find the answer where the free variable stands, once for each conjunction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from attrs import frozen

from peirce_kg.parts.support import QuerySupport
from peirce_queries import Template, Variable

LITERAL_INPUTS = ("atom_heads", "atom_relations", "atom_sources", "atom_targets", "atom_negated")
"""The inputs beside `input_ids`, the token of each literal's tail, and `attention_mask`, true at literals.

`atom_heads` and `atom_relations` are tokens. `atom_sources` and `atom_targets` number the variables at both ends,
`variable_number`, and are 0 at entities. `atom_negated` is 1 for a negated atom.
"""
ENTITY = 0
"""The number of an end that is an entity."""
VARIABLES = 9
"""Variables that a conjunction may have: f and e1 to e8."""
MOST = 64
"""Literals that the disjunctive normal form may have."""
DEPTH = 4
"""Literals that may lie between an entity and the answer; TEGA's types have up to 3."""


def variable_number(conjunction: int, variable: int) -> int:
    """The number of a variable of a conjunction, both from 0; the free variable is variable 0."""
    return 1 + conjunction * VARIABLES + variable


@frozen
class Edge:
    """A literal of a conjunction, without its names, and whether it is not negated.

    head, tail: the numbers of its ends among the conjunction's variables, 0 for f; None for an entity.
    """

    head: int | None
    tail: int | None
    positive: bool = True


Edges: TypeAlias = tuple[Edge, ...]
"""A conjunction without its names."""
Shape: TypeAlias = tuple[Edges, ...]
"""The conjunctions of a query's disjunctive normal form."""
Rule: TypeAlias = Callable[[Edges], str | None]
"""Why a system does not support a conjunction; None if it does."""


class Executor(QuerySupport):
    """The contract of a system that executes queries: which of them it supports.

    All systems read answers at tails, from literals that are joined to f and at most `DEPTH` away from it.

    Attributes:
        rules: what it asks of each conjunction beside that.
    """

    rules: ClassVar[tuple[Rule, ...]] = ()

    @classmethod
    def why_unsupported(cls, template: Template) -> str | None:
        """See `QuerySupport.why_unsupported`."""
        return why_too_large(template) or cls.unsupported(shape_of(template))

    @classmethod
    def why_untrained(cls, template: Template) -> str | None:
        """See `QuerySupport.why_untrained`."""
        return cls.untrained(shape_of(template))

    @classmethod
    def unsupported(cls, shape: Shape) -> str | None:
        """Why the system does not support a query; None if it does."""
        reasons = (rule(edges) for rule in (_joined_to_answer, *cls.rules) for edges in shape)
        return next((reason for reason in reasons if reason is not None), None)

    @classmethod
    def untrained(cls, shape: Shape) -> str | None:
        """Why the system is not trained on a query; None if it is. It is on what it supports, unless it says more."""
        return cls.unsupported(shape)


def executor_of(part: type[Any]) -> type[Executor]:
    """What an architecture that is given literals declares; what holds of all of them, if it declares nothing."""
    return part if issubclass(part, Executor) else Executor


def shape_of(template: Template) -> Shape:
    """A query without its names, as the rules of systems see it."""
    return tuple(
        tuple(Edge(_number(slot.head), _number(slot.tail), slot.positive) for slot in conjunction)
        for conjunction in template.conjunctions
    )


def why_too_large(template: Template) -> str | None:
    """Why no system is given a query, which has too many literals or variables; None if it may be."""
    shape = shape_of(template)
    count = sum(map(len, shape))
    if count > MOST:
        return f"its disjunctive normal form has {count} atoms, and {MOST} is the most"
    most = max(end or 0 for edges in shape for edge in edges for end in (edge.head, edge.tail))
    if most >= VARIABLES:
        return f"it has the variable e{most}, and there are e1 to e{VARIABLES - 1}"
    return None


def _number(end: int | Variable) -> int | None:
    """f is 0 and e1 is 1; None for an entity."""
    return int(end.name[1:] or 0) if isinstance(end, Variable) else None


def _joined_to_answer(edges: Edges) -> str | None:
    """What every system asks for: answers at tails, and nothing too far from them."""
    if not any(edge.tail == 0 for edge in edges):
        return "no atom leads to f, where answers are read"
    distances = _distances(edges)
    if any(end is not None and end not in distances for edge in edges for end in (edge.head, edge.tail)):
        return "an atom has nothing to do with f"
    if any(edge.head is None and edge.tail is None for edge in edges):
        return "an atom of two entities has nothing to do with f"
    known = [[distances[end] for end in (edge.head, edge.tail) if end is not None] for edge in edges]
    if max(max(far) if len(far) == 2 else far[0] + 1 for far in known) > DEPTH:
        return f"an entity is more than {DEPTH} atoms away from f"
    return None


def _distances(edges: Edges) -> dict[int, int]:
    """How many atoms, whichever way they point, lie between each variable and f."""
    ends = [(edge.head, edge.tail) for edge in edges if edge.head is not None and edge.tail is not None]
    found, near = {0: 0}, {0}
    for distance in range(1, len(ends) + 1):
        joined = {end for pair in ends if near.intersection(pair) for end in pair}
        near = joined - found.keys()
        found |= dict.fromkeys(near, distance)
    return found


def inward(edges: Edges) -> str | None:
    """Atoms are followed from heads to tails, to f at last."""
    away = any(edge.tail is None or edge.head == 0 for edge in edges)
    return "an atom leads away from f or to an entity" if away else None


def tree(edges: Edges) -> str | None:
    """Sets are made of sets: entities are where they begin, and each variable's set is used once."""
    if (away := inward(edges)) is not None:
        return away
    led = {edge.tail for edge in edges}
    for variable in sorted({edge.head for edge in edges if edge.head is not None}):
        if variable not in led:
            return f"nothing leads to e{variable}, an existential leaf"
        if len({edge.tail for edge in edges if edge.head == variable}) > 1:
            return f"e{variable} leads to several variables, so there is a cycle"
    return None


def no_shared_set(edges: Edges) -> str | None:
    """A set loses which of its members stood for a variable.

    A negated atom of an existential variable, as in pni, is the complement of what the whole set leads to, as in the
    published code of BetaE and ConE; by the formula's own semantics one member is enough.
    """
    for variable in sorted({edge.head for edge in edges if edge.head is not None}):
        if sum(edge.head == variable for edge in edges) > 1:
            return f"several atoms speak of e{variable}, and a set does not tell which member they mean"
    return None


def no_negation(edges: Edges) -> str | None:
    """A system without complements."""
    return None if all(edge.positive for edge in edges) else "it has no negation"
