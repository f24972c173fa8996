"""What walks look up: random triples of an entity, a relation or a pair, and random neighbours along a relation.

The level of a triple is the number of the split that adds it: 0 in train, 1 in valid, 2 in test. The cumulative graph
of a split holds the triples up to its level. All lists stand in order of level, so what a smaller graph has is a prefix
of what a larger one has, and one list serves the three of them.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from peirce_queries.engine.missing import Links
from peirce_queries.graphs.graph import SPLITS, Bools, Graph, Index, Ints


@frozen(eq=False)
class Postings:
    """A list of triples for each owner, such as an entity; the owner -1 has an empty one.

    With the triples 0: (a, r, b), 1: (b, r, c), 2: (a, s, c) of the levels 0, 0, 1 and their heads a = 0, b = 1 as
    owners, `items` is [0, 2, 1], `start` is [0, 2, 3] and the rows of `stops` are [1, 3, 3], [2, 3, 3] and [2, 3, 3]:
    a's list is items[0:1] in train and items[0:2] in valid and test. The last column is the owner -1's.

    Args:
        items: int32 [m], numbers of triples, by owner, then by level.
        start: int64 [owners + 1], where each list begins.
        stops: int64 [3, owners + 1], where it ends in the graph of each level.
    """

    items: NDArray[np.int32]
    start: Ints
    stops: Ints

    @classmethod
    def of(cls, owner: Ints, level: NDArray[np.uint8], items: NDArray[np.int32], owners: int) -> Postings:
        """Sort items by owner, then by level; equals keep their order. All are [m]."""
        levels = len(SPLITS)
        order = np.argsort(owner * levels + level, kind="stable")
        sizes = np.bincount(owner * levels + level, minlength=(owners + 1) * levels).reshape(-1, levels).T
        total = sizes.sum(axis=0)
        start = np.cumsum(total) - total
        return cls(items[order], start, start + np.cumsum(sizes, axis=0))

    def pick(self, owner: Ints, level: int, random: np.random.Generator) -> tuple[Ints, Bools]:
        """A random item of each owner up to a level, and whether there is one: [n] each."""
        start = self.start.take(owner)
        sizes = self.stops[level].take(owner) - start
        place = start + (random.random(len(owner)) * sizes).astype(np.int64)
        return np.append(self.items, 0).take(place).astype(np.int64), sizes > 0


@frozen(eq=False)
class Lookup:
    """The triples of all splits.

    Args:
        entities, relations: how many there are.
        triples: int32 [n, 3] of head, relation, tail, distinct, in order of level.
        levels: uint8 [n], the level of each.
        indexes: the index of each split, for the exact engine.
        folder: the index that they were opened from, if they were; a process that gets the lookup opens it too.
    """

    entities: int
    relations: int
    triples: NDArray[np.int32] = field(repr=False)
    levels: NDArray[np.uint8] = field(repr=False)
    indexes: tuple[Index, ...] = field(repr=False)
    folder: Path | None = None

    @classmethod
    def of(cls, graph: Graph) -> Lookup:
        """The lookup of a graph, whose splits are levels."""
        triples, indexes = graph.stored, tuple(graph.index(split) for split in SPLITS)
        if triples is None:
            triples = np.concatenate(list(graph.added.values()))
        sizes = np.diff([0, *map(len, indexes)])
        levels = np.repeat(np.arange(len(SPLITS), dtype=np.uint8), sizes)
        return cls(graph.entities, graph.relations, triples, levels, indexes, graph.folder)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Without the triples if a file has them, so that workers read them there."""
        if self.folder is not None:
            return _open, (self.folder,)
        return super().__reduce_ex__(protocol)

    def size(self, level: int) -> int:
        """How many triples the cumulative graph of a level has."""
        return int(np.searchsorted(self.levels, level, side="right"))

    @cached_property
    def links(self) -> tuple[Links, ...]:
        """What counts missing links, for the levels after the first."""
        return tuple(Links(before, whole) for before, whole in pairwise(self.indexes))

    def neighbour(
        self, relation: Ints, entity: Ints, level: int, random: np.random.Generator, *, heads: bool
    ) -> tuple[Ints, Bools]:
        """A random entity at the other end of each relation's edges at an entity, and whether there is one: [n] each.

        heads: the entities are heads and their neighbours tails; else the other way round.
        """
        index = self.indexes[level]
        start, counts = index.edges(index.groups(relation, entity, heads=heads), heads=heads)
        place = start + (random.random(len(start)) * counts).astype(np.int64)
        # a relation that no split has at the entity has its empty list after the last place
        inside = place < len(self.triples)
        return np.where(inside, index.others(np.where(inside, place, 0), heads=heads), 0), counts > 0

    def relation(
        self, entity: Ints, level: int, random: np.random.Generator, *, heads: bool
    ) -> tuple[Ints, Bools]:
        """A random one of the relations of each entity's edges, each as likely, and whether there is one: [n] each.

        heads: the entities are heads; else tails.
        """
        return self._relations[not heads].pick(entity, level, random)

    def degree(self, relation: Ints, entity: Ints, level: int, *, heads: bool) -> Ints:
        """How many edges of each relation there are at an entity: [n]."""
        index = self.indexes[level]
        return index.edges(index.groups(relation, entity, heads=heads), heads=heads)[1]

    @cached_property
    def of_relation(self) -> Postings:
        """The triples of each relation."""
        return self._postings(self.triples[:, 1].astype(np.int64), self.relations)

    @cached_property
    def of_head(self) -> tuple[Postings, Postings]:
        """The triples with each head: all, and those beside which there is another between the pair."""
        return self._of_entity(0)

    @cached_property
    def of_tail(self) -> tuple[Postings, Postings]:
        """The triples with each tail: all, and those beside which there is another between the pair."""
        return self._of_entity(2)

    @cached_property
    def parallel(self) -> Ints:
        """The triples beside which there is another from the same head to the same tail."""
        head, tail = self._ends
        pair = head * self.entities + tail
        ordered = np.sort(pair)
        several = np.append(ordered[1:][ordered[1:] == ordered[:-1]], -1)
        return np.flatnonzero(several.take(np.searchsorted(several[:-1], pair)) == pair)

    @cached_property
    def of_pair(self) -> Postings:
        """The triples between each pair, numbered by `pair`."""
        return self._postings(self.pair(*self._ends), len(self._pairs))

    def pair(self, head: Ints, tail: Ints) -> Ints:
        """The owner in `of_pair` of each head and tail, -1 where no triple joins them."""
        wanted = head * self.entities + tail
        place = np.searchsorted(self._pairs, wanted)
        return np.where(self._pairs.take(place, mode="clip") == wanted, place, -1)

    @cached_property
    def inverses(self) -> Ints:
        """For each relation one that has its triples turned round, or -1: int64 [relations]."""
        # sums of random numbers tell sets of pairs apart
        ends = np.random.default_rng(0).integers(2**63, size=(2, self.entities), dtype=np.uint64)
        head, tail = self._ends
        sums = np.zeros((2, self.relations), np.uint64)
        for total, one, other in zip(sums, (head, tail), (tail, head), strict=True):
            np.add.at(total, self.triples[:, 1], ends[0][one] * ends[1][other])
        known = {value: relation for relation, value in enumerate(sums[1].tolist()) if value}
        return np.array([known.get(value, -1) for value in sums[0].tolist()], np.int64)

    @cached_property
    def _relations(self) -> tuple[Postings, Postings]:
        """The relations that lead from each entity, and those that lead to it, each once."""
        relation, found = self.triples[:, 1], []
        for entity in self._ends:
            # triples stand in order of level, so the first of a relation says from where on it is there
            _, first = np.unique(entity * self.relations + relation, return_index=True)
            found.append(Postings.of(entity[first], self.levels[first], relation[first], self.entities))
        return found[0], found[1]

    @property
    def _ends(self) -> tuple[Ints, Ints]:
        return self.triples[:, 0].astype(np.int64), self.triples[:, 2].astype(np.int64)

    @cached_property
    def _pairs(self) -> Ints:
        head, tail = self._ends
        return np.unique(head * self.entities + tail)

    def _of_entity(self, column: int) -> tuple[Postings, Postings]:
        owner = self.triples[:, column].astype(np.int64)
        return self._postings(owner, self.entities), self._postings(owner, self.entities, self.parallel)

    def _postings(self, owner: Ints, owners: int, some: Ints | None = None) -> Postings:
        numbers = np.arange(len(self.triples), dtype=np.int32) if some is None else some.astype(np.int32)
        return Postings.of(owner.take(numbers), self.levels.take(numbers), numbers, owners)


def _open(folder: Path) -> Lookup:
    return Lookup.of(Graph.open_folder(folder, digests=False))
