"""The index of a graph: its triples sorted once by head and once by tail, for three cumulative splits at a time.

All splits share one array a direction. Within a group, the triples of one relation and one entity, those of train come
first, then those that valid adds, then those of test: what a split holds of a group is a prefix of it. A group is found
by interpolation: the range of a relation's entities is cut into about as many buckets as it has groups.

Memory in bytes: 4 a triple and direction, and 14 a group, or 16 where one has over 255 triples of later splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
"""The splits, each containing the one before it."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_SHIFT = 31
_STEPS = 4


@frozen(eq=False)
class _Side:
    """The triples grouped by relation and the entity at one end.

    Args:
        first: int64 [relations + 1]: where the groups of each relation begin.
        entity: int32 [groups]: the entity of each group, sorted within a relation.
        start: [groups + 1]: where the triples of each group begin.
        later: per split, [groups]: how many triples of each group are of later splits; None for the last split.
        other: int32 [triples]: the entity at the other end, sorted within a group and an added split.
        low, span, scale, base: int64 [relations]: the least entity, how far they reach, buckets per entity in units of
            2**-31, and the first bucket.
        bucket: [buckets]: the first group that lies in or after each bucket.
    """

    first: Ints
    entity: NDArray[np.int32]
    start: NDArray[np.signedinteger]
    later: tuple[NDArray[np.unsignedinteger] | None, ...]
    other: NDArray[np.int32]
    low: Ints
    span: Ints
    scale: Ints
    base: Ints
    bucket: NDArray[np.signedinteger]

    @classmethod
    def of(cls, relation: Ints, entity: Ints, other: Ints, added: NDArray[np.uint8], relations: int) -> _Side:
        """From distinct triples in any order; `added`: the number of the split that adds each."""
        order = np.lexsort((other, added, entity, relation))
        relation, entity, added = relation[order], entity[order], added[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (relation[1:] != relation[:-1]) | (entity[1:] != entity[:-1])
        start = np.flatnonzero(new)
        relation, entity = relation[start], entity[start]
        first = np.searchsorted(relation, np.arange(relations + 1))
        count = np.diff(first)
        used = np.flatnonzero(count)
        low, span = np.zeros(relations, np.int64), np.zeros(relations, np.int64)
        low[used] = entity[first[used]]
        span[used] = entity[first[used + 1] - 1] - low[used] + 1
        scale = (count << _SHIFT) // np.maximum(span, 1)
        base = first[:-1]
        bucket = base[relation] + ((entity - low[relation]) * scale[relation] >> _SHIFT)
        later = [_later(added > number, start) if len(start) else None for number in range(len(SPLITS) - 1)]
        return cls(
            first,
            entity.astype(np.int32),
            _small(np.append(start, len(order))),
            (*later, None),
            other[order].astype(np.int32),
            low,
            span,
            scale,
            base,
            _small(np.searchsorted(bucket, np.arange(len(start)))),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        sizes = (self.low, self.span, self.scale, self.first)
        arrays = (*sizes, self.entity, self.start, self.other, self.bucket, *self.later)
        return sum(array.nbytes for array in arrays if array is not None)

    def groups(self, relation: Ints, entity: Ints) -> tuple[Ints, Bools]:
        """The group of each relation and entity, and whether there is one; where there is none, any group."""
        offset = entity - self.low[relation]
        found = (offset >= 0) & (offset < self.span[relation])
        place = (offset * self.scale[relation] >> _SHIFT) + self.base[relation]
        group = self.bucket.take(np.where(found, place, 0)).astype(np.int64)
        # a relation's largest entity is not below an entity in its span, so no step leaves the relation
        waiting = np.flatnonzero(found & (self.entity.take(group) < entity))
        for _ in range(_STEPS):
            group[waiting] += 1
            waiting = waiting[self.entity[group[waiting]] < entity[waiting]]
        if len(waiting):
            end = self.first[relation[waiting] + 1]
            group[waiting] = lower_bound(self.entity, group[waiting], end, entity[waiting])
        found &= self.entity.take(group) == entity
        return group, found

    def stop(self, group: Ints, split: int) -> Ints:
        """Where each group's triples that a split holds stop in `other`."""
        stop = self.start.take(group + 1).astype(np.int64)
        later = self.later[split]
        return stop if later is None else stop - later.take(group)

    def ranges(self, relation: Ints, entity: Ints, split: int) -> tuple[Ints, Ints]:
        """Where the triples that a split holds of each group start and stop in `other`."""
        if not len(self.entity):
            return np.zeros(len(entity), np.int64), np.zeros(len(entity), np.int64)
        group, found = self.groups(relation, entity)
        start = self.start.take(group).astype(np.int64)
        return start, np.where(found, self.stop(group, split), start)

    def contains(self, relation: Ints, entity: Ints, other: Ints, split: int) -> Bools:
        """Whether a split holds each triple."""
        if not len(self.entity):
            return np.zeros(len(entity), dtype=bool)
        group, found = self.groups(relation, entity)
        rows = np.flatnonzero(found)
        found[:] = False
        group, other = group[rows], other[rows]
        start = self.start.take(group).astype(np.int64)
        for added in range(split + 1):  # what a split adds to a group is sorted by itself
            stop = self.stop(group, added)
            place = lower_bound(self.other, start, stop, other)
            here = (place < stop) & (self.other.take(place, mode="clip") == other)
            found[rows[here]] = True
            left = np.flatnonzero(~here)
            rows, group, other, start = rows[left], group[left], other[left], stop[left]
        return found


@frozen(eq=False)
class Index:
    """The triples that one cumulative split holds; the indexes of a graph's splits share their arrays.

    Two numberings of triples occur: `ranges` and `others` speak of places in one direction's array; `of_relation` and
    `triples` number the triples of the split alone, from 0 to len(index) - 1.

    Args:
        entities: how many entities there are.
        relations: how many relations there are.
        split: the number of the split.
        forward: the triples grouped by head.
        backward: the triples grouped by tail.
        skipped: int64: which places of `forward` hold triples of later splits, sorted.
    """

    entities: int
    relations: int
    split: int
    forward: _Side = field(repr=False)
    backward: _Side = field(repr=False)
    skipped: NDArray[np.signedinteger] = field(repr=False)

    @classmethod
    def of(cls, triples: NDArray[np.int32], entities: int, relations: int) -> Index:
        """Index distinct triples. `triples`: int32 [n, 3] of head, relation, tail."""
        return cls.cumulative([triples, triples[:0], triples[:0]], entities, relations)[-1]

    @classmethod
    def cumulative(
        cls, added: Sequence[NDArray[np.int32]], entities: int, relations: int
    ) -> tuple[Index, ...]:
        """An index per split, from the triples that each split adds: int32 [n, 3] of head, relation, tail, distinct."""
        number = np.repeat(np.arange(len(added), dtype=np.uint8), [len(triples) for triples in added])
        head, relation, tail = np.concatenate(added).T
        forward = _Side.of(relation, head, tail, number, relations)
        backward = _Side.of(relation, tail, head, number, relations)
        later = [_small(_places_of_later(forward, split)) for split in range(len(added))]
        return tuple(
            cls(entities, relations, split, forward, backward, skipped) for split, skipped in enumerate(later)
        )

    def __len__(self) -> int:
        return len(self.forward.other) - len(self.skipped)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that all splits share."""
        return self.forward.nbytes + self.backward.nbytes

    def contains(self, relation: Ints, head: Ints, tail: Ints) -> Bools:
        """Whether each triple is in the graph; the arguments are int64 [n]."""
        return self.forward.contains(relation, head, tail, self.split)

    def ranges(self, relation: Ints, entity: Ints, *, heads: bool) -> tuple[Ints, Ints]:
        """Where the triples of each relation and entity start and stop in the array that `others` reads; where there is
        none, both are equal. `heads`: the entity is the head; otherwise it is the tail."""
        return (self.forward if heads else self.backward).ranges(relation, entity, self.split)

    def others(self, places: Ints, *, heads: bool) -> Ints:
        """The entities at the other end of the triples at places that `ranges` gave."""
        return (self.forward if heads else self.backward).other.take(places).astype(np.int64)

    def ends(self, relation: int, *, heads: bool) -> Ints:
        """The entities that are a head (`heads`) or a tail of a relation, sorted."""
        side = self.forward if heads else self.backward
        group = np.arange(side.first[relation], side.first[relation + 1])
        return side.entity[group[side.stop(group, self.split) > side.start[group]]].astype(np.int64)

    def of_relation(self, relation: Ints) -> tuple[Ints, Ints]:
        """The numbers of the first triple of each relation and of the one after its last, for `triples`."""
        start, stop = (self.forward.start[self.forward.first[relation + end]] for end in (0, 1))
        return start - np.searchsorted(self.skipped, start), stop - np.searchsorted(self.skipped, stop)

    def triples(self, places: Ints | slice = slice(None)) -> tuple[Ints, Ints, Ints]:
        """Head, relation and tail of some of the split's triples, numbered in the order of relation and head."""
        number = np.arange(len(self))[places] if isinstance(places, slice) else places
        # the k-th skipped place has skipped[k] - k triples of the split before it
        before = np.searchsorted(self._before_skipped, number, side="right")
        place = number + before
        group = np.searchsorted(self.forward.start, place, side="right") - 1
        relation = np.searchsorted(self.forward.first, group, side="right") - 1
        return self.forward.entity[group].astype(np.int64), relation, self.others(place, heads=True)

    @cached_property
    def _before_skipped(self) -> NDArray[np.signedinteger]:
        return self.skipped - np.arange(len(self.skipped), dtype=self.skipped.dtype)


def lower_bound(sorted_parts: NDArray[np.int32], start: Ints, stop: Ints, value: Ints) -> Ints:
    """The first place in [start, stop) whose entry is not below the value, or stop; each such part is sorted."""
    found = start.copy()
    length = stop - start
    rows = np.flatnonzero(length > 0)
    place, length, value = start[rows], length[rows], value[rows]
    while len(rows):
        half = length >> 1
        below = sorted_parts.take(place + half) < value
        place += np.where(below, half + 1, 0)
        length = np.where(below, length - half - 1, half)
        open_ = length > 0
        if not open_.all():
            found[rows[~open_]] = place[~open_]
            rows, place, length, value = rows[open_], place[open_], length[open_], value[open_]
    return found


def _later(is_later: Bools, start: Ints) -> NDArray[np.unsignedinteger]:
    count = np.add.reduceat(is_later, start, dtype=np.int64)
    return count.astype(np.min_scalar_type(count.max()))


def _places_of_later(side: _Side, split: int) -> Ints:
    """Which places of `other` hold triples of later splits."""
    group = np.arange(len(side.entity))
    stop = side.stop(group, split)
    count = side.start[1:] - stop
    return np.arange(count.sum()) + np.repeat(stop - (np.cumsum(count) - count), count)


def _small(values: Ints) -> NDArray[np.signedinteger]:
    """The same in 32 bits, where they suffice."""
    return values.astype(np.int32) if not len(values) or values.max() < 2**31 else values
