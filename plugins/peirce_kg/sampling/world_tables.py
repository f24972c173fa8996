"""Tables of values for many queries at once, each row with the worlds in which it holds; `worlds` works on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from peirce_kg.engine.template import Slot
from peirce_kg.graphs.index import Ints
from peirce_kg.queries.language import FREE, Variable

Bits = NDArray[np.unsignedinteger]
Column = NDArray[np.int64] | NDArray[np.int32]


@frozen(eq=False)
class Table:
    """Rows of values. query: int64 [n]; worlds: [n], never 0; columns: variable -> int [n]. Rows are distinct."""

    query: Ints
    worlds: Bits
    columns: Mapping[Variable, Column]

    def __len__(self) -> int:
        return len(self.query)

    def rows(self, rows: Ints) -> Table:
        """Some of the rows, by number."""
        return Table(
            self.query.take(rows), self.worlds.take(rows), {v: c.take(rows) for v, c in self.columns.items()}
        )

    def within(self, worlds: Bits) -> Table:
        """The rows with other worlds, without those that have none left."""
        rows = np.flatnonzero(worlds)
        table = evolve(self, worlds=worlds)
        return table if len(rows) == len(worlds) else table.rows(rows)


@frozen(eq=False)
class Link:
    """A positive atom from something bound to a variable.

    owner, size: int64 [n], for each row of a table the run of edges, as `Lookup.owner` gives it, and how many they are.
    """

    slot: Slot
    owner: Ints
    size: Ints

    def rows(self, rows: Ints) -> Link:
        """The same for some of the rows, by number."""
        return Link(self.slot, self.owner.take(rows), self.size.take(rows))


def fewest(links: Sequence[Link]) -> tuple[Ints, Ints, Ints]:
    """For each row, the link with fewest edges: its number, its run and their count, int64 [n] each."""
    if len(links) == 1:
        return np.zeros(len(links[0].owner), np.int64), links[0].owner, links[0].size
    sizes = np.stack([link.size for link in links])
    chosen = sizes.argmin(axis=0)
    rows = np.arange(len(chosen))
    return chosen, np.stack([link.owner for link in links])[chosen, rows], sizes[chosen, rows]


def joined(tables: Sequence[Table]) -> Table:
    """One after another, of f alone."""
    return Table(
        np.concatenate([table.query for table in tables]),
        np.concatenate([table.worlds for table in tables]),
        {FREE: np.concatenate([table.columns[FREE] for table in tables])},
    )


def distinct(table: Table, entities: int) -> Table:
    """Each combination of query and values once, with the worlds of all rows that had it."""
    code = table.query
    top = int(code.max()) + 1 if len(code) else 1
    for column in table.columns.values():
        if top * entities >= 2**62:
            values, code = np.unique(code, return_inverse=True)
            top = len(values)
        code = code * entities + column
        top *= entities
    worlds = table.worlds.copy()
    keep = np.ones(len(code), dtype=bool)
    bits = max(len(code), 1).bit_length() + 1
    last = np.empty(2**bits, np.int64)
    rows = np.arange(len(code))
    # each row writes its number where its code hashes to; whoever reads another row's finds an equal or a collision
    multiplier = 0x9E3779B97F4A7C15
    while len(rows):
        some = code.take(rows)
        place = ((some.view(np.uint64) * np.uint64(multiplier)) >> np.uint64(64 - bits)).view(np.int64)
        last[place] = rows
        first = last.take(place)
        equal = (code.take(first) == some) & (first != rows)
        same, into = rows[equal], first[equal]
        keep[same] = False
        news = np.flatnonzero(worlds.take(same) & ~worlds.take(into))
        np.bitwise_or.at(worlds, into[news], worlds[same[news]])
        rows = rows[~equal & (first != rows)]
        multiplier = (multiplier * 0xD1342543DE82EF95 + 2) % 2**64 | 1
    kept = np.flatnonzero(keep)
    return evolve(table, worlds=worlds).rows(kept)
