"""Sets of entities for many queries at once, as keys: query * entities + entity.

Where a batch has few enough queries and entities, sets are marked in one array of a byte per key, which is quicker than
sorting; where it has not, they are sorted. That array is the batch's largest and is as long as its queries times its
entities, never entities times entities.
"""

from __future__ import annotations

import numpy as np
from attrs import field, frozen

from peirce_kg.graphs.index import Bools, Ints

CELLS = 32_000_000
"""Keys that are marked in an array; more are sorted."""
_SPARSE = 128
"""One key in so many cells is as quickly sorted as marked."""


@frozen(eq=False)
class Space:
    """The keys of a batch.

    Args:
        queries: how many queries the batch has.
        entities: how many entities the graph has.
    """

    queries: int
    entities: int
    _marks: Bools = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        size = self.queries * self.entities
        object.__setattr__(self, "_marks", np.zeros(size if size <= CELLS else 0, dtype=bool))

    def everything(self, queries: Ints) -> Ints:
        """Every entity for each of some queries."""
        return (queries[:, None] * self.entities + np.arange(self.entities)).ravel()

    def distinct(self, keys: Ints) -> Ints:
        """The distinct keys, sorted."""
        if len(keys) * _SPARSE < len(self._marks) or not len(self._marks):
            return sorted_distinct(keys)
        self._marks[keys] = True
        found = np.flatnonzero(self._marks)
        self._marks[found] = False
        return found

    def among(self, keys: Ints, some: Ints) -> Bools:
        """Which of the keys are among some others."""
        if not len(self._marks):
            some = np.sort(some)
            place = np.searchsorted(some, keys)
            return (place < len(some)) & (some.take(place, mode="clip") == keys) if len(some) else place < 0
        self._marks[some] = True
        found = self._marks.take(keys)
        self._marks[some] = False
        return found


def sorted_distinct(values: Ints) -> Ints:
    """The distinct values, sorted."""
    values = np.sort(values)
    new = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new]
