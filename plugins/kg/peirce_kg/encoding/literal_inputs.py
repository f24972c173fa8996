"""The inputs of systems that execute queries: the literals of the disjunctive normal form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from peirce.errors import TaskError
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.parts.systems import literals
from peirce_kg.parts.systems.literals import LITERAL_INPUTS, Executor, shape_of, why_too_large
from peirce_queries import FREE, Groundings, Ints, Template, Variable

Arrays: TypeAlias = dict[str, NDArray[Any]]
"""The inputs of a model by name, [n, x] each; `attention_mask` is bool, the others int64. Zeros are padding."""


class UnsupportedQueryError(TaskError):
    """A query that a system does not support, and the reason."""

    def __init__(self, system: str, query: object, reason: str) -> None:
        super().__init__(f"{system} does not support {query}: {reason}; ask another model, or in another way")
        self.reason = reason


def check_supported(name: str, system: type[Executor], template: Template) -> None:
    """Refuse, by an `UnsupportedQueryError`, a query that a system, called `name`, does not support."""
    if (reason := system.why_unsupported(template)) is not None:
        raise UnsupportedQueryError(name, template.query, reason)


def query_literals(template: Template, groundings: Groundings, vocabulary: Vocabulary) -> Arrays | None:
    """The literals of groundings of one template; None where there are too many, or too many variables."""
    if why_too_large(template) is not None:
        return None
    # All existential variables have one token: it says no more than that they are.
    existential, rows = vocabulary.free + 1, len(groundings)
    slots = [slot for conjunction in template.conjunctions for slot in conjunction]

    def tokens(ends: Sequence[int | Variable]) -> Ints:
        found = np.empty((rows, len(ends)), np.int64)
        for place, end in enumerate(ends):
            if isinstance(end, Variable):
                found[:, place] = vocabulary.free if end == FREE else existential
            else:
                found[:, place] = vocabulary.first_entity + groundings.constants[:, end]
        return found

    relations = groundings.relations[:, [slot.relation for slot in slots]] + vocabulary.first_relation
    structure = (np.tile(each, (rows, 1)) for each in _structure(template))
    columns = (tokens([slot.head for slot in slots]), relations, *structure)
    return {
        "input_ids": tokens([slot.tail for slot in slots]),
        "attention_mask": np.ones(relations.shape, np.bool_),
        **dict(zip(LITERAL_INPUTS, columns, strict=True)),
    }


def takes_literals(inputs: Iterable[str]) -> bool:
    """Whether a model with these inputs is given literals."""
    return not set(LITERAL_INPUTS).isdisjoint(inputs)


@lru_cache(maxsize=1024)
def _structure(template: Template) -> tuple[Ints, Ints, Ints]:
    """Numbers of the variables at both ends of each literal, and whether it is negated: int64 [x] each."""

    def number(conjunction: int, end: int | None) -> int:
        return literals.ENTITY if end is None else literals.variable_number(conjunction, end)

    rows = [
        (number(place, edge.head), number(place, edge.tail), not edge.positive)
        for place, edges in enumerate(shape_of(template))
        for edge in edges
    ]
    sources, targets, negated = np.array(rows, np.int64).T
    return sources, targets, negated
