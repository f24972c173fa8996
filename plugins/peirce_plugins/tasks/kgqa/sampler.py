"""Samples queries with exact answers: walks on the graph propose groundings, the exact engine keeps the sound ones.

Every query has an answer and no vacuous part on the graph of its split:

* dropping a negated atom gives more answers, dropping a branch of a disjunction fewer;
* no atom is repeated, and none is implied by the others of its conjunction up to renaming existential variables;
* a query of the valid or test split has an answer that the split before it lacks;
* it has at most `max_answers` answers, and no other query of its set is the same up to renaming.

A proposal walks along each branch of the query, whose atoms are thus true of something; a negated atom is chosen to be
true of something that the rest of its branch allows. Every grounding that meets the conditions can be proposed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TypeAlias, TypeVar

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray
from peirce.errors import TaskError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from peirce_plugins.tasks.kgqa.engine import Answers, Groundings, Slot, Template, answers
from peirce_plugins.tasks.kgqa.graph import SPLITS, Bools, Graph, Index, Ints, Split
from peirce_plugins.tasks.kgqa.language import FREE, Query, Variable
from peirce_plugins.tasks.kgqa.querytypes import QueryType

MAX_ANSWERS = 100
"""Answers that a sampled query may have on the graph of its split, unless told otherwise."""
BATCH = 1024
"""Proposals that are treated at once, or a few more; part of what a seed means."""
_K = TypeVar("_K")
_Ground: TypeAlias = tuple[bool, int, int | Variable, int | Variable]

PATIENCE = 24
"""Batches without a new query after which a type is given up as exhausted."""
MAX_SYMMETRIES = 1000
"""Renamings of a template that are searched for when duplicates are looked for."""


@frozen(eq=False)
class QuerySet:
    """Sampled queries of one type.

    Args:
        type: the query type.
        template: its abstract query, prepared.
        groundings: the queries.
        split: the split that they were sampled from.
        answers: the exact answers on the cumulative graph of every split; evaluation filters by all of them.
    """

    type: QueryType
    split: Split
    template: Template
    groundings: Groundings
    answers: Mapping[Split, Answers]

    def __len__(self) -> int:
        return len(self.groundings)

    def query(self, row: int, graph: Graph) -> Query:
        """One of the queries, with names."""
        relations, constants = self.groundings.relations[row], self.groundings.constants[row]
        names = {s: graph.relation_names[i] for s, i in zip(self.template.relations, relations, strict=True)}
        names |= {s: graph.entity_names[i] for s, i in zip(self.template.constants, constants, strict=True)}
        return self.template.query.ground(names)


def sample(
    types: Sequence[QueryType],
    graph: Graph,
    split: Split,
    count: int,
    seed: int,
    max_answers: int = MAX_ANSWERS,
    console: Console | None = None,
) -> tuple[QuerySet, ...]:
    """Sample `count` queries of each type from the graph of a split; fewer where the graph has no more.

    The queries of a type depend on the graph, the split, the seed and `max_answers`, not on the other types; a larger
    count continues a smaller one.

    Args:
        types: the query types.
        graph: the graph.
        split: `train` for training; `valid` and `test` queries have an answer that the split before lacks.
        count: how many queries of each type.
        seed: the seed.
        max_answers: how many answers a query may have on the graph of the split.
        console: where a progress bar is shown; nowhere when None.

    Raises:
        TaskError: not one query of a type was found. QueryTooLargeError: a type is too large for the graph.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=console is None, transient=True) as progress:
        bar = progress.add_task(f"sampling {split} queries", total=count * len(types))
        sets = []
        for kind in types:
            progress.update(bar, description=f"sampling {split} queries: {kind.name}")
            sampler = _Sampler(kind, graph, split, seed, max_answers)
            while len(sampler.found) < count and sampler.misses < PATIENCE:
                before = min(len(sampler.found), count)
                sampler.propose()
                progress.advance(bar, min(len(sampler.found), count) - before)
            sets.append(sampler.take(count))
            progress.advance(bar, count - len(sets[-1]))
    return tuple(sets)


class _Sampler:
    """Finds queries of one type, batch by batch."""

    def __init__(self, kind: QueryType, graph: Graph, split: Split, seed: int, max_answers: int) -> None:
        self.kind, self.graph, self.split, self.max_answers = kind, graph, split, max_answers
        self.template = Template.of(kind.query)
        self.walker = _Walker(graph.index(split))
        self.fresh = graph.added[split] if split != "train" else None
        self.random = np.random.default_rng([seed, zlib.crc32(kind.name.encode()), SPLITS.index(split)])
        self.symmetries = symmetries(self.template)
        self.found: list[Groundings] = []
        self.answered: dict[Split, list[Answers]] = {s: [] for s in SPLITS}
        self.seen: set[bytes] = set()
        self.misses = 0

    def propose(self) -> None:
        """Propose a batch and keep what is sound and new."""
        proposals = self.walker.groundings(self.template, self.fresh, self.random)
        proposals = proposals[self._new(proposals)]
        proposals = proposals[~redundant(self.template, proposals)]
        kept, found = self._sound(proposals)
        self.misses = 0 if len(kept) else self.misses + 1
        for row in range(len(kept)):
            self.found.append(kept[row : row + 1])
            for split, sets in found.items():
                self.answered[split].append(sets.select(np.array([row])))

    def take(self, count: int) -> QuerySet:
        """The first `count` of the queries found."""
        if not self.found:
            raise TaskError(
                f"no {self.kind.name} query with 1 to {self.max_answers} answers was found on the {self.split} graph "
                f"of {self.graph.name}; raise max_answers or leave the type out"
            )
        return QuerySet(
            self.kind,
            self.split,
            self.template,
            Groundings.joined(self.found[:count]),
            {split: Answers.joined(sets[:count]) for split, sets in self.answered.items()},
        )

    def _new(self, proposals: Groundings) -> Ints:
        """The rows that are no renaming of an earlier one, each once."""
        rows = []
        for row, key in enumerate(canonical(proposals, self.symmetries)):
            if key not in self.seen:
                self.seen.add(key)
                rows.append(row)
        return np.array(rows, np.int64)

    def _sound(self, proposals: Groundings) -> tuple[Groundings, dict[Split, Answers]]:
        """The proposals that meet the conditions on answers, and their answers per split."""
        found: dict[Split, Answers] = {}

        def keep(condition: Bools) -> None:
            nonlocal proposals
            rows = np.flatnonzero(condition)
            proposals = proposals[rows]
            found.update({split: sets.select(rows) for split, sets in found.items()})

        here, index = self.split, self.graph.index(self.split)
        found[here] = answers(self.template, proposals, index)
        keep((found[here].counts > 0) & (found[here].counts <= self.max_answers))
        for earlier in reversed(SPLITS[: SPLITS.index(here)]):
            found[earlier] = answers(self.template, proposals, self.graph.index(earlier))
            if SPLITS.index(earlier) == SPLITS.index(here) - 1:
                keep(found[here].minus(found[earlier], self.graph.entities).counts > 0)
        for slot in self.template.negated:
            more = answers(self.template.without(slot), proposals, index)
            keep(more.counts > found[here].counts)
        branches = range(len(self.template.conjunctions))
        for branch in branches if len(branches) > 1 else ():
            fewer = answers(self.template.only(i for i in branches if i != branch), proposals, index)
            keep(fewer.counts < found[here].counts)
        for later in SPLITS[SPLITS.index(here) + 1 :]:
            found[later] = answers(self.template, proposals, self.graph.index(later))
        return proposals, found


@frozen(eq=False)
class _Walker:
    """Random walks over a graph's triples, a batch at a time.

    by_head and by_tail hold the triples sorted by one end, by_pair by both; each is int64 [n] in mixed radix.
    """

    index: Index
    by_head: Ints = field(init=False)
    by_tail: Ints = field(init=False)
    by_pair: Ints = field(init=False)

    def __attrs_post_init__(self) -> None:
        head, relation, tail = self.index.triples()
        entities, relations = self.index.entities, self.index.relations
        for name, key in (
            ("by_head", (head * relations + relation) * entities + tail),
            ("by_tail", (tail * relations + relation) * entities + head),
            ("by_pair", (head * entities + tail) * relations + relation),
        ):
            object.__setattr__(self, name, np.sort(key))

    def groundings(
        self,
        template: Template,
        fresh: NDArray[np.int32] | None,
        random: np.random.Generator,
    ) -> Groundings:
        """Propose groundings; walks start at a triple of `fresh`, int32 [n, 3], where it is given."""
        if not len(self.index):
            raise TaskError("the graph has no triples to sample queries from")
        # a walk that starts elsewhere gives other queries, so each batch starts at every atom there is
        starts: list[tuple[int, Slot | None]] = []
        for branch, slots in enumerate(template.conjunctions):
            starts += [(branch, slot) for slot in slots if slot.positive] or [(branch, None)]
        count = -(-BATCH // len(starts))
        parts = [self._from(start, template, fresh, random, count) for start in starts]
        proposals = Groundings.joined(parts)
        return proposals[random.permutation(len(proposals))]

    def _from(
        self,
        start: tuple[int, Slot | None],
        template: Template,
        fresh: NDArray[np.int32] | None,
        random: np.random.Generator,
        count: int,
    ) -> Groundings:
        """The groundings of walks that begin in one branch, at one atom."""
        walk = _Walk(self, template, random, count)
        first, atom = start
        others = [branch for branch in range(len(template.conjunctions)) if branch != first]
        if atom is not None:
            walk.start(atom, fresh)
        for branch in [first, *random.permutation(others).tolist()]:
            slots = template.conjunctions[branch]
            positive = [slot for slot in slots if slot.positive]
            walk.along(positive)
            for slot in slots:
                if not slot.positive:
                    walk.forget()
                    walk.along(positive)
                    walk.along([slot])
            walk.forget()
        return walk.result()


class _Walk:
    """The state of a batch of walks: slots that are fixed, variables that stand somewhere, and rows that still go."""

    def __init__(self, walker: _Walker, template: Template, random: np.random.Generator, count: int) -> None:
        self.walker, self.index, self.random = walker, walker.index, random
        self.relations: dict[int, Ints] = {}
        self.ends: dict[int | Variable, Ints] = {}
        self.count = count
        self.alive = np.ones(count, dtype=bool)
        self.template = template

    def result(self) -> Groundings:
        """The groundings whose walks came through."""
        shape = (self.count, 0)
        relations = [self.relations[i] for i in range(len(self.template.relations))]
        constants = [self.ends[i] for i in range(len(self.template.constants))]
        return Groundings(
            np.stack(relations, axis=1) if relations else np.zeros(shape, np.int64),
            np.stack(constants, axis=1) if constants else np.zeros(shape, np.int64),
        )[self.alive]

    def forget(self) -> None:
        """Let the variables go; the slots stay."""
        self.ends = {end: value for end, value in self.ends.items() if not isinstance(end, Variable)}

    def start(self, slot: Slot, fresh: NDArray[np.int32] | None) -> None:
        """Put an atom on a random triple."""
        if fresh is not None:
            if not len(fresh):
                raise TaskError(
                    "the split adds no triples, so no query has an answer that the split before it lacks"
                )
            head, relation, tail = fresh[self.random.integers(len(fresh), size=self.count)].astype(np.int64).T
            self._put(slot, head, relation, tail)
        else:
            self._anywhere(slot)

    def along(self, slots: Sequence[Slot]) -> None:
        """Make every atom true, those that are most determined first."""
        waiting = list(slots)
        while waiting:
            slot = max(waiting, key=self._determined)
            waiting.remove(slot)
            self._step(slot)

    def _determined(self, slot: Slot) -> int:
        known = (slot.head in self.ends) + (slot.tail in self.ends)
        return 2 * known + (slot.relation in self.relations)

    def _step(self, slot: Slot) -> None:
        """Make one atom true by choosing what is open in it."""
        head, tail = self.ends.get(slot.head), self.ends.get(slot.tail)
        relation = self.relations.get(slot.relation)
        entities, relations = self.index.entities, self.index.relations
        if head is not None and tail is not None:
            if relation is not None:
                self.alive &= self.index.contains(relation, head, tail)
            else:
                low = (head * entities + tail) * relations
                self._put(slot, head, self._pick(self.walker.by_pair, low, relations) % relations, tail)
        elif head is None and tail is None:
            self._anywhere(slot)
        elif relation is not None:
            known = head if head is not None else tail
            assert known is not None
            keys = self.index.forward if head is not None else self.index.backward
            other = self._pick(keys, (relation * entities + known) * entities, entities) % entities
            self._put(slot, *((known, relation, other) if head is not None else (other, relation, known)))
        else:
            known = head if head is not None else tail
            assert known is not None
            keys = self.walker.by_head if head is not None else self.walker.by_tail
            step = self._pick(keys, known * relations * entities, relations * entities)
            chosen, other = step // entities % relations, step % entities
            self._put(slot, *((known, chosen, other) if head is not None else (other, chosen, known)))

    def _anywhere(self, slot: Slot) -> None:
        relation = self.relations.get(slot.relation)
        if relation is None:
            place = self.random.integers(len(self.index), size=self.count)
        else:
            size = self.index.entities**2
            place = self._place(self.index.forward, relation * size, size)
        self._put(slot, *self.index.triples(place))

    def _put(self, slot: Slot, head: Ints, relation: Ints, tail: Ints) -> None:
        if slot.head == slot.tail:
            self.alive &= head == tail
        self.ends[slot.head], self.ends[slot.tail] = head, tail
        self.relations[slot.relation] = relation

    def _pick(self, keys: Ints, low: Ints, size: int) -> Ints:
        """A random one of the sorted keys in [low, low + size) per row; rows without one end."""
        return keys[self._place(keys, low, size)]

    def _place(self, keys: Ints, low: Ints, size: int) -> Ints:
        start, stop = np.searchsorted(keys, low), np.searchsorted(keys, low + size)
        self.alive &= stop > start
        place = start + (self.random.random(self.count) * (stop - start)).astype(np.int64)
        return np.minimum(place, len(keys) - 1)


def canonical(groundings: Groundings, renamings: Sequence[tuple[list[int], list[int]]]) -> list[bytes]:
    """A key per grounding that is the same for groundings which are equal up to a renaming of the template."""
    best: Ints | None = None
    for relations, constants in renamings:
        key = np.concatenate([groundings.relations[:, relations], groundings.constants[:, constants]], axis=1)
        if best is None:
            best = key
            continue
        differs = key != best
        first = differs.argmax(axis=1)
        rows = np.arange(len(key))
        smaller = differs.any(axis=1) & (key[rows, first] < best[rows, first])
        best = np.where(smaller[:, None], key, best)
    assert best is not None
    return [row.tobytes() for row in np.ascontiguousarray(best)]


def symmetries(template: Template) -> list[tuple[list[int], list[int]]]:
    """The renamings of slots under which a template is the same formula, the identity first.

    Each is a permutation of the relation slots and one of the constant slots; f is fixed and the order of atoms and
    branches does not count.
    """
    branches = {frozenset(conjunction) for conjunction in template.conjunctions}
    slots = list(dict.fromkeys(slot for conjunction in template.conjunctions for slot in conjunction))
    found: list[tuple[list[int], list[int]]] = []
    steps = 0

    def extend(
        images: list[Slot], relations: dict[int, int], ends: dict[int | Variable, int | Variable]
    ) -> None:
        nonlocal steps
        steps += 1
        if steps > 100 * MAX_SYMMETRIES or len(found) >= MAX_SYMMETRIES:
            return
        if len(images) == len(slots):
            image = dict(zip(slots, images, strict=True))
            if {frozenset(image[slot] for slot in branch) for branch in branches} == branches:
                found.append(
                    (
                        [relations[i] for i in range(len(template.relations))],
                        [end for i in range(len(template.constants)) if isinstance(end := ends[i], int)],
                    )
                )
            return
        slot = slots[len(images)]
        # the slot itself is tried first, which makes the identity the first that is found
        for candidate in sorted(slots, key=lambda other: other != slot):
            if candidate in images or candidate.positive != slot.positive:
                continue
            renamed = _extended(relations, slot.relation, candidate.relation)
            moved = _extended(ends, slot.head, candidate.head)
            moved = None if moved is None else _extended(moved, slot.tail, candidate.tail)
            if renamed is not None and moved is not None:
                extend([*images, candidate], renamed, moved)

    extend([], {}, {FREE: FREE})
    return found


def _extended(mapping: dict[_K, _K], key: _K, value: _K) -> dict[_K, _K] | None:
    """The one-to-one mapping with one more pair; None where it does not fit or mixes slots with variables."""
    if key in mapping:
        return mapping if mapping[key] == value else None
    if value in mapping.values() or isinstance(key, Variable) != isinstance(value, Variable):
        return None
    return {**mapping, key: value}


def redundant(template: Template, groundings: Groundings) -> Bools:
    """Which groundings repeat an atom in a branch, or have one that the others of its branch imply.

    An atom is implied where mapping existential variables to terms of the branch takes the branch into itself without
    the atom; only rows in which a branch has one relation twice can have such a map.
    """
    found = np.zeros(len(groundings), dtype=bool)
    for conjunction in template.conjunctions:
        relations = groundings.relations[:, [slot.relation for slot in conjunction]]
        ordered = np.sort(relations, axis=1)
        suspects = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1) & ~found)
        for row in suspects:
            relation, constant = groundings.relations[row].tolist(), groundings.constants[row].tolist()
            ground: list[_Ground] = []
            for slot in conjunction:
                head, tail = (e if isinstance(e, Variable) else constant[e] for e in (slot.head, slot.tail))
                ground.append((slot.positive, relation[slot.relation], head, tail))
            found[row] = len(set(ground)) < len(ground) or _folds(ground)
    return found


def _folds(ground: Iterable[_Ground]) -> bool:
    """Whether a branch maps into a proper part of itself, f and constants fixed."""
    atoms = set(ground)
    variables = sorted({e for *_, h, t in atoms for e in (h, t) if isinstance(e, Variable)} - {FREE}, key=str)
    places: dict[tuple[bool, int, int], set[int | Variable]] = {}
    for sign, relation, head, tail in atoms:
        places.setdefault((sign, relation, 0), set()).add(head)
        places.setdefault((sign, relation, 1), set()).add(tail)
    choices = []
    for variable in variables:
        allowed = [
            places[sign, relation, side]
            for sign, relation, *ends in atoms
            for side in (0, 1)
            if ends[side] == variable
        ]
        choices.append(sorted(set.intersection(*allowed), key=lambda end: (end != variable, str(end))))
    for images in product(*choices):
        to = dict(zip(variables, images, strict=True))
        image = {(sign, relation, _at(to, head), _at(to, tail)) for sign, relation, head, tail in atoms}
        if image < atoms:
            return True
    return False


def _at(mapping: Mapping[Variable, int | Variable], end: int | Variable) -> int | Variable:
    return mapping.get(end, end) if isinstance(end, Variable) else end
