"""What systems that execute queries themselves are told of a query: the atoms of its disjunctive normal form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from peirce.errors import TaskError

from peirce_kg.encoding.vocabulary import PAD, Vocabulary
from peirce_kg.engine.template import Groundings, Slot, Template
from peirce_kg.graphs.graph import Ints
from peirce_kg.queries.language import Variable
from peirce_kg.query_atoms import ATOM_INPUTS, ENTITY, VARIABLES, Conjunction, Edge, fault, variable_number

MOST = 64
"""Atoms that the disjunctive normal form may have."""


class InexpressibleError(TaskError):
    """A query that a system has no way to say.

    Args:
        system: the system.
        query: the query.
        reason: what stands in the way.
    """

    def __init__(self, system: str, query: object, reason: str) -> None:
        super().__init__(
            f"{system} has no way to say {query}: {reason}; ask another model, or in another way"
        )
        self.reason = reason


@frozen(eq=False)
class QueryAtoms:
    """Grounded queries as atoms; each tensor is int64 [n, x] but `mask`, bool [n, x]."""

    tails: Ints
    mask: NDArray[np.bool_]
    heads: Ints
    relations: Ints
    sources: Ints
    targets: Ints
    negated: Ints

    def inputs(self) -> dict[str, Any]:
        """The inputs of a model by name."""
        rest = (self.heads, self.relations, self.sources, self.targets, self.negated)
        return {
            "input_ids": self.tails,
            "attention_mask": self.mask,
            **dict(zip(ATOM_INPUTS, rest, strict=True)),
        }


def shape_of(template: Template) -> tuple[Conjunction, ...]:
    """A query without its names, as the rules of systems see it."""
    return tuple(
        tuple(Edge(_number(slot.head), _number(slot.tail), slot.positive) for slot in conjunction)
        for conjunction in template.conjunctions
    )


def check_expressible(architecture: str, template: Template) -> None:
    """Refuse a query that a system has no way to say.

    Raises:
        InexpressibleError: it has none.
    """
    reason = why_inexpressible(architecture, template)
    if reason is not None:
        raise InexpressibleError(architecture, template.query, reason)


def why_inexpressible(architecture: str, template: Template) -> str | None:
    """Why a system has no way to say a query; None where it has one."""
    return _too_large(template) or fault(architecture, shape_of(template))


def query_atoms(template: Template, groundings: Groundings, vocabulary: Vocabulary) -> QueryAtoms | None:
    """The atoms of groundings of one template; None where there are too many, or too many variables."""
    if _too_large(template) is not None:
        return None
    # All existential variables have one token: it says no more than that they are.
    existential, rows = vocabulary.free + 1, len(groundings)
    slots = [(c, slot) for c, conjunction in enumerate(template.conjunctions) for slot in conjunction]

    def tokens(ends: Sequence[int | Variable]) -> Ints:
        found = np.empty((rows, len(ends)), np.int64)
        for place, end in enumerate(ends):
            if isinstance(end, Variable):
                found[:, place] = vocabulary.free if end.name == "f" else existential
            else:
                found[:, place] = vocabulary.first_entity + groundings.constants[:, end]
        return found

    sources, targets, negated = _structure(template)
    relations = groundings.relations[:, [slot.relation for _, slot in slots]] + vocabulary.first_relation
    return QueryAtoms(
        tails=tokens([slot.tail for _, slot in slots]),
        mask=np.ones(relations.shape, np.bool_),
        heads=tokens([slot.head for _, slot in slots]),
        relations=relations,
        sources=np.tile(sources, (rows, 1)),
        targets=np.tile(targets, (rows, 1)),
        negated=np.tile(negated, (rows, 1)),
    )


def joined(parts: Sequence[QueryAtoms]) -> QueryAtoms:
    """One batch of several, as long as its longest query."""
    length = max(part.tails.shape[1] for part in parts)

    def padded(values: Sequence[NDArray[Any]], fill: int) -> NDArray[Any]:
        return np.concatenate(
            [np.pad(v, ((0, 0), (0, length - v.shape[1])), constant_values=fill) for v in values]
        )

    return QueryAtoms(
        tails=padded([p.tails for p in parts], PAD),
        mask=padded([p.mask for p in parts], False),
        heads=padded([p.heads for p in parts], PAD),
        relations=padded([p.relations for p in parts], PAD),
        sources=padded([p.sources for p in parts], ENTITY),
        targets=padded([p.targets for p in parts], ENTITY),
        negated=padded([p.negated for p in parts], 0),
    )


def takes_atoms(inputs: Mapping[str, Any] | Sequence[str] | set[str]) -> bool:
    """Whether a model with these inputs is given atoms."""
    return not set(ATOM_INPUTS).isdisjoint(inputs)


@lru_cache(maxsize=1024)
def _structure(template: Template) -> tuple[Ints, Ints, Ints]:
    """Numbers of the variables at both ends of each atom, and whether it is negated: int64 [x] each."""

    def number(conjunction: int, end: int | Variable) -> int:
        variable = _number(end)
        return ENTITY if variable is None else variable_number(conjunction, variable)

    slots: list[tuple[int, Slot]] = [(c, s) for c, all_of in enumerate(template.conjunctions) for s in all_of]
    return (
        np.array([number(c, slot.head) for c, slot in slots], np.int64),
        np.array([number(c, slot.tail) for c, slot in slots], np.int64),
        np.array([not slot.positive for _, slot in slots], np.int64),
    )


def _number(end: int | Variable) -> int | None:
    """f is 0 and e1 is 1; None for an entity."""
    if not isinstance(end, Variable):
        return None
    return 0 if end.name == "f" else int(end.name[1:])


def _too_large(template: Template) -> str | None:
    atoms = sum(map(len, template.conjunctions))
    if atoms > MOST:
        return f"its disjunctive normal form has {atoms} atoms, and {MOST} is the most"
    most = max(
        (_number(end) or 0) for c in template.conjunctions for slot in c for end in (slot.head, slot.tail)
    )
    if most >= VARIABLES:
        return f"it has the variable e{most}, and there are e1 to e{VARIABLES - 1}"
    return None
