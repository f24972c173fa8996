"""Sets of values and assignments of values to variables, for many queries at once.

A set of entities for each query of a batch is an array of keys, query * entities + entity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from attrs import frozen

from peirce_queries.engine.template import Slot
from peirce_queries.graphs.index import Bools, Ints
from peirce_queries.languages.language import Variable

CELLS = 32_000_000
"""Keys that a batch may have, unless a single query has more: an array has a byte for each."""
_SPARSE = 128
"""One key in so many cells is as quickly sorted as marked."""


class Space:
    """The keys of a batch; sets are marked in one array of a byte per key, which is quicker than sorting.

    Args:
        queries: how many queries the batch has.
        entities: how many entities the graph has.
    """

    def __init__(self, queries: int, entities: int) -> None:
        self.entities, self._marks = entities, np.zeros(queries * entities, dtype=bool)

    def everything(self, queries: Ints) -> Ints:
        """Every entity for each of some queries."""
        return (queries[:, None] * self.entities + np.arange(self.entities)).ravel()

    def distinct(self, keys: Ints) -> Ints:
        """The distinct keys, sorted."""
        if len(keys) * _SPARSE < len(self._marks):
            keys = np.sort(keys)  # np.unique hashes since NumPy 2.3, which takes many times as long here
            return keys[np.diff(keys, prepend=-1) > 0]
        self._marks[keys] = True
        found = np.flatnonzero(self._marks)
        self._marks[found] = False
        return found

    def are_in(self, keys: Ints, some: Ints) -> Bools:
        """Which of the keys are among some others."""
        self._marks[some] = True
        found = self._marks.take(keys)
        self._marks[some] = False
        return found


@frozen(eq=False)
class Assignments:
    """Rows of one value per variable. query: int64 [n]; columns: variable -> int64 [n]."""

    query: Ints
    columns: Mapping[Variable, Ints]

    def __len__(self) -> int:
        return len(self.query)

    def rows(self, rows: Ints | Bools) -> Assignments:
        """Some of the rows, by number or by mask."""
        return Assignments(self.query[rows], {v: column[rows] for v, column in self.columns.items()})

    @classmethod
    def concatenate(cls, parts: Sequence[Assignments]) -> Assignments:
        """One after another."""
        if len(parts) == 1:
            return parts[0]
        columns = {v: np.concatenate([part.columns[v] for part in parts]) for v in parts[0].columns}
        return cls(np.concatenate([part.query for part in parts]), columns)


class AtomEdges(NamedTuple):
    """An atom between a variable and what stands at its other end in each row of a table.

    group: int64 [n], of the index, by head where `heads`; start, counts: int64 [n], its edges.
    """

    slot: Slot
    heads: bool
    group: Ints
    start: Ints
    counts: Ints


class Expansion:
    """All atoms between a variable and the rows of a table; along any positive one, `ways`, the variable is reached.

    fewest: int64 [n], the edges of the positive atom that has fewest.
    """

    def __init__(self, to: Variable, table: Assignments, atoms: list[AtomEdges]) -> None:
        self.to, self.table = to, table
        self.ways = [way for way in atoms if way.slot.positive]
        self.negated = [way for way in atoms if not way.slot.positive]
        counts = [way.counts for way in self.ways]
        self.fewest: Ints = np.minimum.reduce(counts) if counts else np.zeros(0, np.int64)


def distinct(table: Assignments) -> Assignments:
    """The distinct rows."""
    if not len(table):
        return table
    values = (table.query, *table.columns.values())
    order = np.lexsort(values)
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([value[order[1:]] != value[order[:-1]] for value in values], axis=0)
    return table.rows(order[new])
