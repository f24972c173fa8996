"""What systems that execute queries themselves are given, and which queries each of them has a way to say.

A query is the atoms of its disjunctive normal form, one a token: what stands at an atom's tail is the token itself, so
heads that rank entities find the answer where the free variable stands, once for each conjunction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

HEADS, RELATIONS, SOURCES, TARGETS, NEGATED = ATOM_INPUTS = (
    "atom_heads",
    "atom_relations",
    "atom_sources",
    "atom_targets",
    "atom_negated",
)
"""The inputs beside `input_ids`, the token of each atom's tail, and `attention_mask`, true at atoms.

`atom_heads` and `atom_relations` are tokens. `atom_sources` and `atom_targets` number the variables at both ends,
`variable_number`, and are 0 at entities. `atom_negated` is 1 for a negated atom.
"""
ENTITY = 0
"""The number of an end that is an entity."""
VARIABLES = 9
"""Variables that a conjunction may have: f and e1 to e8."""
DEPTH = 4
"""Atoms that may lie between an entity and the answer; TEGA's types have up to 3."""


def variable_number(conjunction: int, variable: int) -> int:
    """The number of a variable of a conjunction, both from 0; the free variable is variable 0."""
    return 1 + conjunction * VARIABLES + variable


@frozen
class Edge:
    """An atom of a conjunction, without its names.

    Args:
        head: the number of its head among the conjunction's variables, 0 for f; None for an entity.
        tail: the same of its tail.
        positive: whether it is not negated.
    """

    head: int | None
    tail: int | None
    positive: bool = True


Conjunction = tuple[Edge, ...]
Rule = Callable[[Conjunction], str | None]


def fault(architecture: str, shape: tuple[Conjunction, ...]) -> str | None:
    """Why a system has no way to say a query.

    Args:
        architecture: the system.
        shape: the conjunctions of the query's disjunctive normal form.

    Returns:
        The reason; None if it has one, or if the architecture is none of the systems here.
    """
    rules = (_common, *RULES.get(architecture, ()))
    return next((reason for rule in rules for edges in shape if (reason := rule(edges)) is not None), None)


def learns(architecture: str, shape: tuple[Conjunction, ...]) -> str | None:
    """Why a system is not trained on a query that it has a way to say; None if it is."""
    if architecture == "cqd" and (len(shape) > 1 or len(shape[0]) > 1):
        return "it is a link predictor, which is trained on one atom at a time"
    return fault(architecture, shape)


def _common(edges: Conjunction) -> str | None:
    """What every system asks for: answers at tails, and nothing too far from them."""
    if not any(edge.tail == 0 for edge in edges):
        return "no atom leads to f, where answers are read"
    distances = _distances(edges)
    if any(end is not None and end not in distances for edge in edges for end in (edge.head, edge.tail)):
        return "an atom has nothing to do with f"
    if any(edge.head is None and edge.tail is None for edge in edges):
        return "an atom of two entities has nothing to do with f"
    if max(_reach(edge, distances) for edge in edges) > DEPTH:
        return f"an entity is more than {DEPTH} atoms away from f"
    return None


def _reach(edge: Edge, distances: Mapping[int, int]) -> int:
    """How far from f the further end of an atom is."""
    known = [distances[end] for end in (edge.head, edge.tail) if end is not None]
    return max(known) if len(known) == 2 else known[0] + 1


def _distances(edges: Conjunction) -> dict[int, int]:
    """How many atoms, whichever way they point, lie between each variable and f."""
    found, distance = {0: 0}, 0
    while True:
        edge_of = {
            far: distance + 1
            for edge in edges
            for near, far in ((edge.head, edge.tail), (edge.tail, edge.head))
            if found.get(-1 if near is None else near) == distance and far is not None and far not in found
        }
        if not edge_of:
            return found
        found |= edge_of
        distance += 1


def _tree(edges: Conjunction) -> str | None:
    """Sets are made of sets: entities are where they begin, and each variable's set is used once."""
    for edge in edges:
        if edge.tail is None or edge.head == 0:
            return "an atom leads away from f or to an entity"
    led = {edge.tail for edge in edges}
    for variable in sorted({edge.head for edge in edges if edge.head is not None}):
        if variable not in led:
            return f"nothing leads to e{variable}, an existential leaf"
        if len({edge.tail for edge in edges if edge.head == variable}) > 1:
            return f"e{variable} leads to several variables, so there is a cycle"
    return None


def _no_shared_set(edges: Conjunction) -> str | None:
    """A set loses which of its members stood for a variable."""
    for variable in sorted({edge.head for edge in edges if edge.head is not None}):
        own = [edge for edge in edges if edge.head == variable]
        if len(own) > 1:
            return f"several atoms speak of e{variable}, and a set does not tell which member they mean"
        if not own[0].positive:
            return f"the negated atom of e{variable} speaks of one entity, not of a set"
    return None


def _no_negation(edges: Conjunction) -> str | None:
    return None if all(edge.positive for edge in edges) else "it has no negation"


RULES: Mapping[str, tuple[Rule, ...]] = {
    "betae": (_tree, _no_shared_set),
    "cone": (_tree, _no_shared_set),
    "cqd": (_no_negation, _tree),
    "lmpnn": (),
}
"""What each system asks for beside what all of them do."""
