"""Proposes groundings: random walks along the branches of a query, all of a batch at once.

A walk goes along each branch of the query, whose atoms are thus true of something; a negated atom is chosen to be
true of something that the rest of its branch allows. Every grounding that has an answer and no vacuous part can be
proposed.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import cached_property
from itertools import permutations

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from peirce_queries.engine.answers import answers_within
from peirce_queries.engine.template import Groundings, Slot, Template
from peirce_queries.graphs.graph import Ints
from peirce_queries.languages.language import FREE, Variable
from peirce_queries.sampling.lookup import Lookup, Postings

TOGETHER = (0.5, 0.95)
"""How often one answer makes the negation of all branches true in each; see `Walker.shared_negation_rate`."""
NARROWED = (0.5, 0.9)
"""How often a variable is given few values; the latter for one answer of all branches."""
NARROW = (8, 16)
"""Triples of which the one is taken whose variable has fewest values; the latter for one answer of all branches."""
LIMIT = 4_000_000
"""Rows that an intermediate table may have; a query that needs more is not sampled."""


@frozen(eq=False)
class Walker:
    """Walks over the cumulative graph of one level.

    Args:
        template: the abstract query.
        lookup: the triples.
        level: 0 for train, 1 for valid, 2 for test; walks of the latter two start at a triple of their own level,
            without which no answer could be new.
        hard: whether walks start at an answer, an entity with such a triple, and go back by relations that are equally
            likely, and never by the inverse of the last, as the published sampler of the benchmarks "+H" does.
    """

    template: Template
    lookup: Lookup
    level: int
    hard: bool = False

    def propose(self, count: int, random: np.random.Generator) -> Groundings:
        """About `count` groundings, fewer where walks come to an end."""
        # a walk that starts elsewhere gives other queries, so each batch starts at every atom there is
        starts = [start for start, numbers in self._starts.items() if start[1] is None or len(numbers)]
        if not starts:
            template = self.template
            none = (np.zeros((0, len(names)), np.int64) for names in (template.relations, template.constants))
            return Groundings(*none)
        each = -(-count // len(starts))
        walks = [self._walk_from(*start, each, random) for start in starts]
        done = [walk for walk in walks if walk.free is None]
        if ending := [walk for walk in walks if walk.free is not None]:
            done.append(self._keep_removed(Groundings.concatenate(ending)))
        proposals = Groundings.concatenate(done)
        return proposals[random.permutation(len(proposals))]

    def every(self) -> Groundings | None:
        """All groundings with an answer, where the query is a single atom at one entity; else None."""
        (slot, *others), *branches = self.template.conjunctions
        if others or branches or not slot.positive or len(slot.variables) != 1 or slot.head == slot.tail:
            return None
        triples = self.lookup.triples[: self.lookup.size(self.level)]
        end = 2 if slot.head == FREE else 0
        distinct = np.unique(triples[:, [1, end]].astype(np.int64), axis=0)
        return Groundings(distinct[:, :1], distinct[:, 1:])

    @cached_property
    def _starts(self) -> dict[tuple[int, Slot | None], Ints]:
        """The branches and atoms that a walk may start at, each with the numbers of its triples."""
        lookup = self.lookup
        first = lookup.size(self.level - 1) if self.level else 0
        numbers = np.arange(first, lookup.size(self.level))
        if self.hard:
            return {(0, None): np.unique(lookup.triples[numbers][:, [0, 2]]).astype(np.int64)}
        starts: dict[tuple[int, Slot | None], Ints] = {}
        for branch, slots in enumerate(self.template.conjunctions):
            for slot in slots:
                # in train, a walk starts at an answer that negated atoms remove, so these are true of it
                true = [other for other in slots if other.positive or not self.level]
                paired = any(_are_parallel(slot, other) for other in true)
                if slot.positive and paired:
                    starts[branch, slot] = np.intersect1d(numbers, lookup.parallel, assume_unique=True)
                elif slot.positive:
                    starts[branch, slot] = numbers
            if not any(slot.positive for slot in slots):
                starts[branch, None] = numbers
        return starts

    @cached_property
    def _paths(self) -> list[tuple[int, int]]:
        """The relation slots of two positive atoms of a branch that alone say something of the variable between."""
        found = []
        for slots in self.template.conjunctions:
            for one, after in permutations([slot for slot in slots if slot.positive], 2):
                between = [slot for slot in slots if one.tail in (slot.head, slot.tail)]
                if one.tail == after.head != FREE and isinstance(one.tail, Variable) and len(between) == 2:
                    found.append((one.relation, after.relation))
        return found

    @cached_property
    def _common_negations(self) -> list[Slot]:
        """The negated atoms at a variable, where all of several branches have them and say alike what an answer is."""
        conjunctions = self.template.conjunctions
        at = [{slot for slot in slots if FREE in slot.variables} for slots in conjunctions]
        if len(conjunctions) == 1 or any(slots != at[0] for slots in at):
            return []
        return [slot for slot in self.template.negated if slot in at[0] and len(slot.variables) == 2]

    @cached_property
    def shared_negation_rate(self) -> float:
        """How often walks make negations that all branches share true of one answer in all of them.

        Where branches differ in a variable that an answer follows from, what is removed in one need not be in another.
        """
        if not self._common_negations:
            return 0.0
        first, *others = ({*slots} for slots in self.template.conjunctions)
        tied = {v for s in first if s.positive and FREE in s.variables for v in s.variables - {FREE}}
        alike = all(tied.isdisjoint(slot.variables) for other in others for slot in first ^ other)
        return TOGETHER[alike]

    @cached_property
    def _closes(self) -> bool:
        """Whether the one negated atom of one conjunction closes a circle of variables, which is slow to answer."""
        negated, conjunctions = self.template.negated, self.template.conjunctions
        if not len(conjunctions) == len(negated) == 1:
            return False
        ends = negated[0].variables
        links = {s.variables for s in conjunctions[0] if s.positive and len(s.variables) == 2}
        return len(ends) == 2 and ends not in links and len(links) + 1 >= len(ends.union(*links))

    def _walk_from(
        self, first: int, atom: Slot | None, count: int, random: np.random.Generator
    ) -> Groundings:
        """The groundings of walks that begin in one branch, at one atom."""
        walk = _Walk(self.template, self.lookup, self.level, random, count, even=self.hard)
        conjunctions = self.template.conjunctions
        others = [branch for branch in range(len(conjunctions)) if branch != first]
        # a negation that several branches share removes only what it removes in each of them
        together = self.shared_negation_rate > 0 and random.random() < self.shared_negation_rate
        removing = {slot: self._branches(slot, random) for slot in self.template.negated}
        if together:
            removing |= {slot: set(range(len(conjunctions))) for slot in self._common_negations}
            walk.together = True
        shared: frozenset[Variable] = frozenset()
        numbers = self._starts[first, atom]
        if self.hard:
            walk.ends[FREE] = numbers[random.integers(len(numbers), size=count)]
            for conjunction in conjunctions:
                walk.forget({FREE})
                walk.satisfy([each for each in conjunction if each.positive])
            for one, after in self._paths:
                inverse = self.lookup.inverses[walk.relations[one]]
                walk.alive &= (inverse != walk.relations[after]) | (inverse == walk.relations[one])
            if not self.template.negated:
                return walk.result()
        elif atom is not None:
            walk.put(atom, numbers[random.integers(len(numbers), size=count)])
            shared = frozenset(atom.variables)
            if self.level:
                # the new answer, and the one that a negated atom removes, need not be the same
                walk.satisfy(_connected_atoms(atom, conjunctions[first]), atom)
                shared = frozenset()
        order = [first, *random.permutation(others).tolist()]
        for branch, following in zip(order, [*order[1:], None], strict=True):
            slots = conjunctions[branch]
            positive = [slot for slot in slots if slot.positive]
            for slot in [slot for slot in slots if branch in removing.get(slot, ())] or [None]:
                walk.forget(shared)
                walk.satisfy([*positive, slot] if slot else positive)
                shared = frozenset()
            # or the one answer of all of them: what they say of it alike is then left as it is
            if following is not None and (together or random.random() < 0.5):
                shared = _shared_variables(slots, conjunctions[following])
                walk.before = {end: value for end, value in walk.ends.items() if end not in shared}
        return walk.result(ending=together or self._closes)

    def _keep_removed(self, proposals: Groundings) -> Groundings:
        """Those whose negated atom does remove the one answer that they are asked about, as the engine says."""
        left, _ = answers_within(self.template, proposals, self.lookup.indexes[self.level], LIMIT)
        return evolve(proposals, free=None)[left.counts == 0]

    def _branches(self, slot: Slot, random: np.random.Generator) -> set[int]:
        """In which branches with a negated atom walks make it true, of answers that it removes: one, some, or all."""
        there = [i for i, slots in enumerate(self.template.conjunctions) if slot in slots]
        some = {branch for branch in there if random.random() < 0.5}
        return some or {int(random.choice(there))}


class _Walk:
    """The state of a batch of walks: slots that are fixed, variables that stand somewhere, and rows that still go."""

    def __init__(
        self,
        template: Template,
        lookup: Lookup,
        level: int,
        random: np.random.Generator,
        count: int,
        *,
        even: bool = False,
    ) -> None:
        self.template, self.lookup, self.level, self.random, self.even = template, lookup, level, random, even
        self.relations: dict[int, Ints] = {}
        self.ends: dict[int | Variable, Ints] = {}
        self.before: dict[int | Variable, Ints] = {}
        self.count = count
        tied = {v for slot in template.negated if len(slot.variables) == 2 for v in slot.variables} - {FREE}
        self.narrowing = {
            slot
            for slots in template.conjunctions
            for slot in slots
            if slot.positive and len(slot.variables) == 1 and slot.variables <= tied
        }
        self.alive, self.together = np.ones(count, dtype=bool), False

    def result(self, *, ending: bool = False) -> Groundings:
        """The groundings whose walks came through; `ending` asks about the answer at which each ends."""
        relations = [self.relations[i] for i in range(len(self.template.relations))]
        constants = [self.ends[i] for i in range(len(self.template.constants))]
        columns = (
            np.array(rows, np.int64).reshape(len(rows), self.count).T for rows in (relations, constants)
        )
        found = Groundings(*columns)[self.alive]
        return evolve(found, free=self.ends[FREE][self.alive]) if ending else found

    def forget(self, kept: Set[Variable] = frozenset()) -> None:
        """Unbind all variables but `kept`; slots stay bound."""
        gone = {end for end in self.ends if isinstance(end, Variable)} - kept
        self.ends = {end: value for end, value in self.ends.items() if end not in gone}

    def put(self, slot: Slot, numbers: Ints | NDArray[np.int32]) -> None:
        """Bind an atom to triples, one for each row."""
        head, relation, tail = self.lookup.triples.take(numbers, axis=0).T.astype(np.int64)
        if slot.head == slot.tail:
            self.alive &= head == tail
        self.ends[slot.head], self.ends[slot.tail] = head, tail
        self.relations[slot.relation] = relation

    def satisfy(self, slots: Sequence[Slot], true: Slot | None = None) -> None:
        """Bind every atom to triples, the most determined first; `true` is an atom that is bound already."""
        waiting = list(slots)
        while waiting:
            slot = max(waiting, key=self._known_ends)
            waiting.remove(slot)
            self._step(slot, [other for other in (*slots, true) if other and _are_parallel(slot, other)])

    def _known_ends(self, slot: Slot) -> int:
        return 2 * ((slot.head in self.ends) + (slot.tail in self.ends)) + (slot.relation in self.relations)

    def _step(self, slot: Slot, beside: Sequence[Slot]) -> None:
        """Make one atom true by choosing what is open in it; the atoms beside it must have other relations."""
        head, tail = self.ends.get(slot.head), self.ends.get(slot.tail)
        relation = self.relations.get(slot.relation)
        lookup, level = self.lookup, self.level
        if head is not None and tail is not None:
            if relation is not None:
                self.alive &= lookup.indexes[level].contains(relation, head, tail)
            else:
                taken = [self.relations[o.relation] for o in beside if o.relation in self.relations]
                self._choose(slot, lookup.of_pair, lookup.pair(head, tail), taken)
        elif relation is not None:
            known = head if head is not None else tail
            if known is None:
                self._choose(slot, lookup.of_relation, relation)
                return
            heads = head is not None
            self._neighbour(slot, relation, known, heads=heads)
        elif (
            self.even and not beside and slot not in self.narrowing and (head is not None or tail is not None)
        ):
            known, heads = (tail, False) if head is None else (head, True)
            assert known is not None
            self.relations[slot.relation], there = lookup.relation(known, level, self.random, heads=heads)
            self.alive &= there
            self._neighbour(slot, self.relations[slot.relation], known, heads=heads)
        elif head is not None:
            self._choose(slot, lookup.of_head[bool(beside)], head)
        elif tail is not None:
            self._choose(slot, lookup.of_tail[bool(beside)], tail)
        else:
            self.put(slot, self.random.integers(lookup.size(level), size=self.count))

    def _neighbour(self, slot: Slot, relation: Ints, known: Ints, *, heads: bool) -> None:
        """Put an atom on a random triple of its relation and of its one known end."""
        other, there = self.lookup.neighbour(relation, known, self.level, self.random, heads=heads)
        self.alive &= there
        end = slot.tail if heads else slot.head
        if self.together and end in self.before:  # a branch with the same values would be one too many
            again, _ = self.lookup.neighbour(relation, known, self.level, self.random, heads=heads)
            other = np.where(other == self.before[end], again, other)
            self.alive &= other != self.before[end]
        self.ends[end] = other

    def _choose(self, slot: Slot, triples: Postings, owner: Ints, taken: Sequence[Ints] = ()) -> None:
        """Put an atom on random triples of their owners, if possible on ones whose relation is not taken."""
        numbers, there = triples.pick(owner, self.level, self.random)
        for _ in range(2 if taken else 0):
            again = np.logical_or.reduce([self.lookup.triples[numbers, 1] == relation for relation in taken])
            numbers[again] = triples.pick(owner[again], self.level, self.random)[0]
        # a negation that ties a variable to f removes an answer only where no value of the variable is left
        narrowed = (
            self.random.random(self.count) < NARROWED[self.together]
            if slot in self.narrowing
            else np.zeros(0, dtype=bool)
        )
        if narrowed.any():
            others = (
                triples.pick(owner, self.level, self.random)[0] for _ in range(NARROW[self.together] - 1)
            )
            tried = np.stack([numbers, *others])
            fewest = self._count_values(slot, tried.ravel()).reshape(tried.shape).argmin(axis=0)
            numbers = np.where(narrowed, tried[fewest, np.arange(self.count)], numbers)
        self.alive &= there
        self.put(slot, numbers)

    def _count_values(self, slot: Slot, numbers: Ints) -> Ints:
        """How many values the variable of an atom would have, if the atom were put on each of some triples."""
        heads = not isinstance(slot.head, Variable)
        head, relation, tail = self.lookup.triples[numbers].T.astype(np.int64)
        return self.lookup.degree(relation, head if heads else tail, self.level, heads=heads)


def _are_parallel(slot: Slot, other: Slot) -> bool:
    """Whether two atoms lead from the same end to the same end, by relations that may differ."""
    ends = (slot.head, slot.tail) == (other.head, other.tail)
    return ends and slot.relation != other.relation


def _shared_variables(slots: Sequence[Slot], others: Sequence[Slot]) -> frozenset[Variable]:
    """The variables of which two branches say the same."""
    variables = frozenset(v for slot in slots for v in slot.variables)
    return variables - {v for slot in {*slots} ^ {*others} for v in slot.variables if v != FREE}


def _connected_atoms(atom: Slot, slots: Sequence[Slot]) -> list[Slot]:
    """The other positive atoms that variables connect to one."""
    found, ends = [atom], set(atom.variables)
    while more := [s for s in slots if s.positive and s not in found and s.variables & ends]:
        found += more
        ends.update(*(slot.variables for slot in more))
    return found[1:]
