"""The triples of all splits in one index, made for sampling: each knows the smallest split that holds it.

The level of a triple is the number of the split that adds it: 0 in train, 1 in valid, 2 in test. The cumulative
graph of a split holds the triples up to its level, so one index serves the three of them, and every list in it
stands in order of level: what a smaller graph has is a prefix of what a larger one has. Lookups hash, since a
binary search through all triples takes ten times as long.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from peirce_kg.graphs.graph import SPLITS, Bools, Graph, Index, Ints

ABSENT = len(SPLITS)
"""The level of a triple that no split holds."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""2**64 over the golden ratio: spreads keys that are close together."""


@frozen(eq=False)
class Keys:
    """Finds distinct non-negative keys, in buckets by hash.

    Args:
        shift: what is left of a hash, after this many bits, is its bucket.
        ordered: int64 [n + 1], the keys by bucket; one more, which nobody asks for, so that the place after the last
            one can be looked at.
        numbers: int32 [n + 1], the number of each of them.
        start: int32 [buckets + 1], where each bucket begins.
        deepest: how many keys the largest bucket has.
    """

    shift: np.uint64
    ordered: Ints = field(repr=False)
    numbers: NDArray[np.int32] = field(repr=False)
    start: NDArray[np.int32] = field(repr=False)
    deepest: int

    @classmethod
    def of(cls, keys: Ints) -> Keys:
        """Of keys int64 [n], which are numbered as they come."""
        bits = max(len(keys), 1).bit_length() + 1
        shift = np.uint64(64 - bits)
        bucket = _hashed(np.ascontiguousarray(keys), shift)
        order = np.argsort(bucket, kind="stable")
        sizes = np.bincount(bucket, minlength=2**bits)
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        ordered, numbers = np.append(keys[order], -1), np.append(order, -1).astype(np.int32)
        return cls(shift, ordered, numbers, start, int(sizes.max()))

    def find(self, wanted: Ints) -> Ints:
        """The number of each wanted key among the keys, -1 where it is none of them."""
        bucket = _hashed(wanted, self.shift)
        place = self.start.take(bucket)
        hit = self.ordered.take(place) == wanted
        found = self.numbers.take(place).astype(np.int64)
        missed = np.flatnonzero(~hit)
        found[missed] = -1
        last = self.start.take(bucket.take(missed) + 1)
        place = place.take(missed)
        for _ in range(1, self.deepest):
            place = place + 1
            more = place < last
            missed, place, last = missed[more], place[more], last[more]
            if not len(missed):
                break
            hit = self.ordered.take(place) == wanted.take(missed)
            found[missed[hit]] = self.numbers.take(place[hit])
        return found


@frozen(eq=False)
class Runs:
    """A list in runs, one per owner, each in order of level; the owner -1 has an empty one.

    items: int32 [m], what is listed; start: int64 [owners + 1]; stops: int64 [3, owners + 1], one row per level.
    """

    items: NDArray[np.int32]
    start: Ints
    stops: Ints

    @classmethod
    def of(cls, owner: Ints, level: NDArray[np.uint8], items: NDArray[np.int32], owners: int) -> Runs:
        """Sort a list by owner, then by level; equals keep their order."""
        order = np.argsort(owner * ABSENT + level, kind="stable")
        sizes = np.bincount(owner * ABSENT + level, minlength=(owners + 1) * ABSENT).reshape(-1, ABSENT).T
        total = sizes.sum(axis=0)
        start = np.cumsum(total) - total
        return cls(items[order], start, start + np.cumsum(sizes, axis=0))

    def sizes(self, owner: Ints, level: int = ABSENT - 1) -> Ints:
        """How many items of each owner there are up to a level."""
        return self.stops[level].take(owner) - self.start.take(owner)

    def pick(self, owner: Ints, level: int, random: np.random.Generator) -> tuple[Ints, Bools]:
        """A random item of each owner up to a level, and whether there is one."""
        start = self.start.take(owner)
        sizes = self.stops[level].take(owner) - start
        place = start + (random.random(len(owner)) * sizes).astype(np.int64)
        return np.append(self.items, 0).take(place).astype(np.int64), sizes > 0


@frozen(eq=False)
class Lookup:
    """The index.

    Args:
        entities: how many entities there are.
        relations: how many relations there are.
        triples: int32 [n, 3] of head, relation, tail, distinct, in order of level.
        levels: uint8 [n], the level of each.
        indexes: the index of each split, for the exact engine; made of the triples where it is not given.
    """

    entities: int
    relations: int
    triples: NDArray[np.int32] = field(repr=False)
    levels: NDArray[np.uint8] = field(repr=False)
    indexes: tuple[Index, ...] = field(repr=False)

    @indexes.default
    def _of_triples(self) -> tuple[Index, ...]:
        ends = [self.size(level) for level in range(ABSENT - 1)]
        return Index.cumulative(np.split(self.triples, ends), self.entities, self.relations)

    @classmethod
    def of(cls, graph: Graph) -> Lookup:
        """Index a graph."""
        added = [graph.added[split] for split in SPLITS]
        levels = np.repeat(np.arange(ABSENT, dtype=np.uint8), [len(part) for part in added])
        indexes = tuple(graph.index(split) for split in SPLITS)
        return cls(graph.entities, graph.relations, np.concatenate(added), levels, indexes)

    def size(self, level: int) -> int:
        """How many triples the cumulative graph of a level has."""
        return int(np.searchsorted(self.levels, level, side="right"))

    def level(self, relation: Ints, head: Ints, tail: Ints) -> NDArray[np.uint8]:
        """The level of each triple, `ABSENT` where no split holds it."""
        return self._fact_levels.take(
            self._facts.find((relation * self.entities + head) * self.entities + tail)
        )

    def owner(self, relation: Ints, entity: Ints, *, heads: bool) -> Ints:
        """Whose runs of `edges` the relation's edges at each entity are, -1 where there are none.

        heads: the entities are heads and the items tails; else the other way round.
        """
        side = 0 if heads else self.relations
        return self._edges[0].find((relation + side) * self.entities + entity)

    @cached_property
    def _facts(self) -> Keys:
        head, relation, tail = self.triples.astype(np.int64).T
        return Keys.of((relation * self.entities + head) * self.entities + tail)

    @cached_property
    def _fact_levels(self) -> NDArray[np.uint8]:
        return np.append(self.levels, np.uint8(ABSENT))

    @cached_property
    def _edges(self) -> tuple[Keys, Runs]:
        head, relation, tail = self.triples.astype(np.int64).T
        keys = np.concatenate(
            [relation * self.entities + head, (relation + self.relations) * self.entities + tail]
        )
        distinct, owner = np.unique(keys, return_inverse=True)
        other = np.concatenate([self.triples[:, 2], self.triples[:, 0]])
        return Keys.of(distinct), Runs.of(owner, np.tile(self.levels, 2), other, len(distinct))

    @property
    def edges(self) -> Runs:
        """The entities at the other ends of the edges of a relation at an entity."""
        return self._edges[1]

    @cached_property
    def of_relation(self) -> Runs:
        """The numbers of the triples of each relation."""
        return self._numbers(self.triples[:, 1].astype(np.int64), self.relations)

    @cached_property
    def of_head(self) -> tuple[Runs, Runs]:
        """The numbers of the triples with each head: all, and those beside which there is another between the pair."""
        head = self.triples[:, 0].astype(np.int64)
        return self._numbers(head, self.entities), self._numbers(head, self.entities, self.parallel)

    @cached_property
    def of_tail(self) -> tuple[Runs, Runs]:
        """The same of each tail."""
        tail = self.triples[:, 2].astype(np.int64)
        return self._numbers(tail, self.entities), self._numbers(tail, self.entities, self.parallel)

    @cached_property
    def parallel(self) -> Ints:
        """The numbers of the triples beside which there is another from the same head to the same tail."""
        _, owner, counts = np.unique(self._pairs, return_inverse=True, return_counts=True)
        return np.flatnonzero(counts.take(owner) > 1)

    @property
    def _pairs(self) -> Ints:
        return self.triples[:, 0].astype(np.int64) * self.entities + self.triples[:, 2]

    @cached_property
    def of_pair(self) -> tuple[Keys, Runs]:
        """The numbers of the triples with each pair, head * entities + tail."""
        distinct, owner = np.unique(self._pairs, return_inverse=True)
        return Keys.of(distinct), self._numbers(owner, len(distinct))

    def _numbers(self, owner: Ints, owners: int, some: Ints | None = None) -> Runs:
        numbers = np.arange(len(self.triples), dtype=np.int32) if some is None else some.astype(np.int32)
        return Runs.of(owner.take(numbers), self.levels.take(numbers), numbers, owners)


def _hashed(keys: Ints, shift: np.uint64) -> Ints:
    """The bucket of each key."""
    return ((keys.view(np.uint64) * _MULTIPLIER) >> shift).view(np.int64)
