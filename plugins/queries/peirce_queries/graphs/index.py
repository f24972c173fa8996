"""The index of a graph: its triples sorted once by head and once by tail, for three cumulative splits at a time.

All splits share one array a direction. Within a group, the triples of one relation and one entity, those of train come
first, then those that valid adds, then those of test: what a split holds of a group is a prefix of it. A group is found
by interpolation: the range of a relation's entities is cut into about as many buckets as it has groups.

Memory in bytes: 4 a triple and direction, and 14 a group, or 16 where one has over 255 triples of later splits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from attrs import asdict, field, fields, frozen
from numpy.typing import NDArray

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
"""The splits, each containing the one before it."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Column = NDArray[np.integer]
Sizes = tuple[int, int]
"""How many relations there are, and how many entities."""

_SHIFT = 31
_STEPS = 4
_PART = 1 << 22


@frozen(eq=False)
class _Side:
    """The triples grouped by relation and the entity at one end.

    Args:
        first: int64 [relations + 1]: where the groups of each relation begin.
        entity: int32 [groups]: the entity of each group, sorted within a relation.
        start: [groups + 2]: where the triples of each group begin; after the last stands an empty one.
        later: per split, [groups + 1]: how many triples of each group are of later splits; None for the last split.
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
    def of(cls, relation: Column, entity: Column, other: Column, added: Column, sizes: Sizes) -> _Side:
        """From distinct triples in any order; `added`: the number of the split that adds each."""
        relations, entities = sizes
        relation, entity, added, other = sort_rows(
            (relation, entity, added, other), (relations, entities, len(SPLITS), entities)
        )
        start = np.flatnonzero(changes(relation, entity))
        relation, entity = relation[start].astype(np.int64), entity[start].astype(np.int64)
        first = np.searchsorted(relation, np.arange(relations + 1))
        count = np.diff(first)
        used = np.flatnonzero(count)
        low, span = np.zeros(relations, np.int64), np.zeros(relations, np.int64)
        low[used] = entity[first[used]]
        span[used] = entity[first[used + 1] - 1] - low[used] + 1
        scale = (count << _SHIFT) // np.maximum(span, 1)
        base = first[:-1]
        bucket = base[relation] + ((entity - low[relation]) * scale[relation] >> _SHIFT)
        later = [_count_later(added > number, start) for number in range(len(SPLITS) - 1)]
        return cls(
            first, entity.astype(np.int32), _narrow(np.append(start, [len(other), len(other)])), (*later, None),
            other, low, span, scale, base,
            _narrow(np.searchsorted(bucket, np.arange(len(start)))),
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        sizes = (self.low, self.span, self.scale, self.first)
        arrays = (*sizes, self.entity, self.start, self.other, self.bucket, *self.later)
        return sum(array.nbytes for array in arrays if array is not None)

    def groups(self, relation: Ints, entity: Ints) -> Ints:
        """The group of each relation and entity; the empty one after the last, where there is none."""
        none = len(self.entity)
        if not none:
            return np.zeros(len(entity), np.int64)
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
        return np.where(found, group, none)

    def stop(self, group: Ints, split: int) -> Ints:
        """Where each group's triples that a split holds stop in `other`."""
        stop = self.start.take(group + 1).astype(np.int64)
        later = self.later[split]
        return stop if later is None else stop - later.take(group)

    def linked(self, group: Ints, other: Ints, split: int) -> Bools:
        """Whether a split holds the triple of each group with an entity at the other end."""
        found = np.zeros(len(group), dtype=bool)
        rows = np.flatnonzero(group < len(self.entity))
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

    Two numberings of triples occur: `edges` and `others` speak of places in one direction's array; `of_relation` and
    `triples` number the triples of the split alone, from 0 to len(index) - 1.

    Args:
        entities, relations: how many there are.
        split: the number of the split.
        forward, backward: the triples grouped by head, and by tail.
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
        """Index triples of one split. `triples`: int32 [n, 3] of head, relation, tail."""
        head, relation, tail = triples.T
        added = np.zeros(len(triples), np.uint8)
        return cls.cumulative(head, relation, tail, added, entities, relations)[-1]

    @classmethod
    def cumulative(
        cls, head: Column, relation: Column, tail: Column, added: Column, entities: int, relations: int
    ) -> tuple[Index, ...]:
        """An index per split. A triple that occurs again belongs to the first split that has it.

        Args:
            head, relation, tail: the triples, in any order: [n].
            added: [n], the number of the split that each is of.
            entities, relations: how many there are.
        """
        relation, head, tail, added = sort_rows(
            (relation, head, tail, added), (relations, entities, entities, len(SPLITS))
        )
        first = changes(relation, head, tail)
        head, relation, tail, added = (column[first] for column in (head, relation, tail, added))
        sizes = relations, entities
        forward = _Side.of(relation, head, tail, added, sizes)
        backward = _Side.of(relation, tail, head, added, sizes)
        every, ends, found = np.arange(len(forward.entity)), forward.start[1:-1], list[Index]()
        for split in range(len(SPLITS)):
            stop = forward.stop(every, split)
            later = np.flatnonzero(ends > stop)
            skipped = _narrow(spans(stop[later], ends[later] - stop[later]))  # triples that later splits add
            found.append(cls(entities, relations, split, forward, backward, skipped))
        return tuple(found)

    @classmethod
    def to_arrays(cls, indexes: Sequence[Index]) -> dict[str, NDArray[np.integer]]:
        """The arrays of the indexes of all splits, by name."""
        found: dict[str, NDArray[Any]] = {f"skipped.{index.split}": index.skipped for index in indexes}
        for name in ("forward", "backward"):
            arrays = asdict(getattr(indexes[0], name), recurse=False)
            later = arrays.pop("later")
            arrays |= {f"later.{split}": count for split, count in enumerate(later[:-1])}
            found |= {f"{name}.{key}": array for key, array in arrays.items()}
        return found

    @classmethod
    def of_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], entities: int, relations: int
    ) -> tuple[Index, ...]:
        """The inverse of `to_arrays`. Raises a KeyError where an array is missing."""

        def side(name: str) -> _Side:
            columns = {
                each.name: arrays[f"{name}.{each.name}"] for each in fields(_Side) if each.name != "later"
            }
            later = (arrays[f"{name}.later.{split}"] for split in range(len(SPLITS) - 1))
            return _Side(**columns, later=(*later, None))

        forward, backward = side("forward"), side("backward")
        return tuple(
            cls(entities, relations, split, forward, backward, arrays[f"skipped.{split}"])
            for split in range(len(SPLITS))
        )

    def __len__(self) -> int:
        return len(self.forward.other) - len(self.skipped)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that all splits share."""
        return self.forward.nbytes + self.backward.nbytes

    def groups(self, relation: Ints, entity: Ints, *, heads: bool) -> Ints:
        """The group of each relation and head (`heads`) or tail: a number that `edges` and `linked` take."""
        return self._side(heads).groups(relation, entity)

    def edges(self, group: Ints, *, heads: bool) -> tuple[Ints, Ints]:
        """Where the triples of each group start in the array that `others` reads, and how many there are."""
        side = self._side(heads)
        start = side.start.take(group).astype(np.int64)
        return start, side.stop(group, self.split) - start

    def linked(self, group: Ints, other: Ints, *, heads: bool) -> Bools:
        """Whether each group has a triple with an entity at the other end."""
        return self._side(heads).linked(group, other, self.split)

    def contains(self, relation: Ints, head: Ints, tail: Ints) -> Bools:
        """Whether each triple is in the graph; the arguments are int64 [n]."""
        return self.linked(self.groups(relation, head, heads=True), tail, heads=True)

    def others(self, places: Ints, *, heads: bool) -> Ints:
        """The entities at the other end of the triples at places that `edges` gave."""
        return self._side(heads).other.take(places).astype(np.int64)

    def ends(self, relation: Ints, *, heads: bool) -> tuple[Ints, Ints]:
        """The entities that are a head (`heads`) or a tail of each relation: the row of each, and the entity."""
        side = self._side(heads)
        first = side.first[relation]
        group = spans(first, counts := side.first[relation + 1] - first)
        held = np.flatnonzero(side.stop(group, self.split) > side.start[group])
        return np.repeat(np.arange(len(relation)), counts)[held], side.entity[group[held]].astype(np.int64)

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
        group = np.searchsorted(self.forward.start[:-2], place, side="right") - 1
        relation = np.searchsorted(self.forward.first, group, side="right") - 1
        return self.forward.entity[group].astype(np.int64), relation, self.others(place, heads=True)

    def rows(self, numbers: Ints) -> NDArray[np.int32]:
        """Head, relation and tail of triples: int32 [n, 3]. They are looked up in parts, which bounds the memory."""
        found = np.empty((len(numbers), 3), np.int32)
        for start in range(0, len(numbers), _PART):
            for column, values in enumerate(self.triples(numbers[start : start + _PART])):
                found[start : start + _PART, column] = values
        return found

    def _side(self, heads: bool) -> _Side:
        return self.forward if heads else self.backward

    @cached_property
    def _before_skipped(self) -> NDArray[np.signedinteger]:
        return self.skipped - np.arange(len(self.skipped), dtype=self.skipped.dtype)


def sort_rows(columns: Sequence[Column], sizes: Sequence[int]) -> list[NDArray[np.int32]]:
    """Rows sorted by their first column, then by the next ones: each column anew, int32 [n].

    Args:
        columns: each [n].
        sizes: what the numbers of each column are below. Rows whose product of sizes fits into 63 bits are sorted as
            one number each, which takes a fraction of the time.
    """
    if math.prod(sizes) >= 2**63:
        order = np.lexsort(columns[::-1])
        return [column[order].astype(np.int32) for column in columns]
    key = columns[0].astype(np.int64)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        key *= size
        key += column
    key.sort()
    found = list[NDArray[np.int32]]()
    for size in reversed(sizes[1:]):
        rest = key // size
        key -= rest * size
        found.append(key.astype(np.int32))
        key = rest
    return [key.astype(np.int32), *reversed(found)]


def changes(*columns: Column) -> Bools:
    """Which rows differ from the one before in some column: [n]; the first does."""
    new = np.ones(len(columns[0]), dtype=bool)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return new


def spans(start: Ints, counts: Ints) -> Ints:
    """The numbers start[i], ..., start[i] + counts[i] - 1 for each i, one after another."""
    total = int(counts.sum())
    before = np.cumsum(counts) - counts
    return np.arange(total) + np.repeat(start - before, counts)


def lower_bound(sorted_parts: NDArray[np.int32], start: Ints, stop: Ints, value: Ints) -> Ints:
    """The first place in [start, stop) whose entry is not below the value, or stop; each such part is sorted."""
    found, length = start.copy(), stop - start
    if not len(sorted_parts):
        return found
    rows = np.flatnonzero(length > 1)
    place, left, wanted = start[rows], length[rows], value[rows]
    while len(rows):
        half = left >> 1
        place += half * (sorted_parts.take(place + (half - 1)) < wanted)
        left -= half
        # rows that are done cost little, as long as they are few
        if 2 * np.count_nonzero(left > 1) <= len(rows):
            found[rows] = place
            open_ = np.flatnonzero(left > 1)
            rows, place, left, wanted = rows[open_], place[open_], left[open_], wanted[open_]
    found += (length > 0) & (sorted_parts.take(found, mode="clip") < value)
    return found


def _count_later(is_later: Bools, start: Ints) -> NDArray[np.unsignedinteger]:
    """How many of each group are later; none of the empty group after the last."""
    ends = np.append(start, len(is_later))
    count = np.append(np.diff(np.concatenate([[0], np.cumsum(is_later)])[ends]), 0)
    return count.astype(np.min_scalar_type(count.max()))


def _narrow(values: Ints) -> NDArray[np.signedinteger]:
    """The numbers in 32 bits, where these suffice."""
    return values.astype(np.int32) if not len(values) or values.max() < 2**31 else values
