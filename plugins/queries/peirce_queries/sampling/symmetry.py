"""When two groundings of a template are one query, and when one says the same thing twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, count, islice
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from peirce_queries.engine.template import Groundings, Slot, Template
from peirce_queries.graphs.graph import Bools, Ints
from peirce_queries.languages.language import FREE, Variable

MAX_SYMMETRIES = 1000
"""Renamings of a template that are searched for when duplicates are looked for."""

_K = TypeVar("_K")
_End: TypeAlias = int | Variable


def canonical(groundings: Groundings, renamings: Sequence[tuple[list[int], list[int]]]) -> list[bytes]:
    """A key per grounding that is the same for groundings which are equal up to a renaming of the template."""
    best: Ints | None = None
    for relations, constants in renamings:
        key = np.concatenate([groundings.relations[:, relations], groundings.constants[:, constants]], axis=1)
        if best is None:
            best = key
            continue
        rows, first = np.arange(len(key)), (key != best).argmax(axis=1)
        best = np.where((key[rows, first] < best[rows, first])[:, None], key, best)
    assert best is not None
    packed = np.ascontiguousarray(best, dtype=np.int32)
    return packed.view(f"V{packed.shape[1] * packed.itemsize}").ravel().tolist()


def symmetries(template: Template) -> list[tuple[list[int], list[int]]]:
    """The renamings of slots under which a template is the same formula, the identity first.

    Each is a permutation of the relation slots and one of the constant slots; f is fixed and the order of atoms and
    branches does not count.
    """
    branches = {frozenset(conjunction) for conjunction in template.conjunctions}
    slots = list(dict.fromkeys(slot for conjunction in template.conjunctions for slot in conjunction))
    steps = count()

    def extend(
        images: list[Slot], relations: dict[int, int], ends: dict[_End, _End]
    ) -> Iterator[tuple[list[int], list[int]]]:
        if next(steps) >= 100 * MAX_SYMMETRIES:
            return
        if len(images) == len(slots):
            image = dict(zip(slots, images, strict=True))
            if {frozenset(image[slot] for slot in branch) for branch in branches} == branches:
                constants = [end for i in range(len(template.constants)) if isinstance(end := ends[i], int)]
                yield [relations[i] for i in range(len(template.relations))], constants
            return
        slot = slots[len(images)]
        # the slot itself is tried first, which makes the identity the first that is found
        for candidate in sorted(slots, key=lambda other: other != slot):
            if candidate in images or candidate.positive != slot.positive:
                continue
            renamed = _extend(relations, slot.relation, candidate.relation)
            moved = _extend(ends, slot.head, candidate.head)
            moved = None if moved is None else _extend(moved, slot.tail, candidate.tail)
            if renamed is not None and moved is not None:
                yield from extend([*images, candidate], renamed, moved)

    return list(islice(extend([], {}, {FREE: FREE}), MAX_SYMMETRIES))


def _extend(mapping: dict[_K, _K], key: _K, value: _K) -> dict[_K, _K] | None:
    """The one-to-one mapping with one more pair; None where it does not fit or mixes slots with variables."""
    if key in mapping:
        return mapping if mapping[key] == value else None
    if value in mapping.values() or isinstance(key, Variable) != isinstance(value, Variable):
        return None
    return {**mapping, key: value}


_Pair: TypeAlias = tuple[Literal["relations", "constants"], int, int]
Repetition: TypeAlias = frozenset[_Pair]
"""Pairs of slots of a template; where each is filled alike, a part of the query is vacuous."""


def redundant(groundings: Groundings, repetitions: Sequence[Repetition]) -> Bools:
    """Which groundings repeat an atom in a branch, or have one that the others of its branch imply."""
    columns = {"relations": groundings.relations.T, "constants": groundings.constants.T}
    found = np.zeros(len(groundings), dtype=bool)
    for repetition in repetitions:
        alike = [columns[kind][one] == columns[kind][other] for kind, one, other in repetition]
        found |= np.logical_and.reduce(alike)
    return found


def repetitions(template: Template) -> list[Repetition]:
    """All ways in which a grounding can repeat an atom or imply it by others of its branch.

    An atom is implied where mapping existential variables to terms takes the branch into itself without the atom, f and
    constants fixed. It suffices to move variables that atoms tie together, to terms that stay: of a map of the branch
    into a part of it, some power leaves its image alone, and moves each tied group of the others by itself.
    """
    found: list[Repetition] = []
    for conjunction in template.conjunctions:
        for repetition in _foldings(conjunction):
            if not any(other <= repetition for other in found):
                found = [other for other in found if not repetition <= other] + [repetition]
    return found


def _foldings(conjunction: Sequence[Slot]) -> Iterator[Repetition]:
    for one, other in combinations(conjunction, 2):
        yield from _place([one], [other], frozenset(), {}, frozenset())
    for group in _tied_groups(conjunction):
        moving = [slot for slot in conjunction if slot.variables & group]
        staying = [slot for slot in conjunction if not slot.variables & group]
        yield from _place(moving, staying, group, {}, frozenset())


def _tied_groups(conjunction: Sequence[Slot]) -> set[frozenset[Variable]]:
    """The sets of existential variables that hang together by atoms between them."""
    pairs = {slot.variables - {FREE} for slot in conjunction}
    groups = {frozenset([variable]) for pair in pairs for variable in pair}
    fresh = groups
    while fresh:
        fresh = {group | pair for group in fresh for pair in pairs if group & pair} - groups
        groups = groups | fresh
    return groups


def _place(
    moving: Sequence[Slot],
    staying: Sequence[Slot],
    group: frozenset[Variable],
    images: dict[_End, _End],
    alike: Repetition,
) -> Iterator[Repetition]:
    """What must be alike so that every moving atom falls on a staying one."""
    if not moving:
        yield alike
        return
    first, *rest = moving
    for target in staying:
        if target.positive != first.positive:
            continue
        moved, more = dict(images), set(alike)
        if first.relation != target.relation:
            more.add(_pair("relations", first.relation, target.relation))
        for end, other in ((first.head, target.head), (first.tail, target.tail)):
            image = moved.setdefault(end, other) if end in group else end
            if isinstance(image, Variable) or isinstance(other, Variable):
                if image != other:
                    break
            elif image != other:
                more.add(_pair("constants", image, other))
        else:
            yield from _place(rest, staying, group, moved, frozenset(more))


def _pair(kind: Literal["relations", "constants"], one: int, other: int) -> _Pair:
    return kind, min(one, other), max(one, other)
