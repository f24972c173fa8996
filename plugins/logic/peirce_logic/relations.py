"""The twelve logical relations and the ids of what a token can be to one. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

RELATIONS: tuple[tuple[str, int], ...] = (
    ("conjunction", 2),
    ("disjunction", 2),
    ("negation", 1),
    ("conditional", 2),
    ("negative_conditional", 2),
    ("analogy", 2),
    ("comparative", 2),
    ("adversative", 2),
    ("temporal", 2),
    ("causal", 2),
    ("progression", 2),
    ("example", 1),
)
"""The relations in the paper's order, each with the number of text spans that its keyword joins."""
ROLES = ("key", "alpha", "beta")
"""What a token is to a relation: part of its keyword, of its only or left span, or of its right span."""
NONE_ID = 0
"""The id of a token that has no part in any relation of a level."""


def _ids() -> dict[tuple[str, str], int]:
    pairs = [(relation, role) for relation, spans in RELATIONS for role in ROLES[: spans + 1]]
    return {pair: place for place, pair in enumerate(pairs, NONE_ID + 1)}


LOGICAL_IDS: Mapping[tuple[str, str], int] = MappingProxyType(_ids())
"""The id of each (relation, role); with `NONE_ID`, the values of the input `logical_ids`."""
LOGICAL_ID_COUNT = len(LOGICAL_IDS) + 1
"""35: two for each of two relations with one span, three for each of ten with two, and none."""
