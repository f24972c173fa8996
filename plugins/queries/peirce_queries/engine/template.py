"""Abstract queries prepared for grounding: atoms over slots, and batches of ids for the slots."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from attrs import frozen

from peirce_queries.graphs.index import Bools, Ints
from peirce_queries.languages.language import Atom, Constant, Query, Variable


@frozen
class Slot:
    """An atom or its negation: relation slot, and each end either a constant slot (an integer) or a variable."""

    relation: int
    head: int | Variable
    tail: int | Variable
    positive: bool

    @property
    def variables(self) -> frozenset[Variable]:
        """The variables at its ends."""
        return frozenset(end for end in (self.head, self.tail) if isinstance(end, Variable))

    @property
    def seeds(self) -> bool:
        """Whether it lists values of a variable: it is a positive atom with one constant."""
        return self.positive and isinstance(self.head, Variable) != isinstance(self.tail, Variable)


@frozen
class Branch:
    """Conjunctions that differ only in what one variable has to do with constants, to be answered as one.

    slots: what all of them say; variable: what they differ in, if there are several; either: what each of them says
    besides, positive atoms of that variable and a constant.
    """

    slots: tuple[Slot, ...]
    variable: Variable | None = None
    either: tuple[tuple[Slot, ...], ...] = ()


@frozen
class Template:
    """An abstract query prepared for grounding.

    relations, constants: the names that slots stand for, in order; conjunctions: the disjunctive normal form in slots.
    """

    query: Query
    relations: tuple[str, ...]
    constants: tuple[str, ...]
    conjunctions: tuple[tuple[Slot, ...], ...]

    @classmethod
    def of(cls, query: Query) -> Template:
        """Prepare a query; names become slots in the order of their first appearance."""
        relations = {name: i for i, name in enumerate(query.relations)}
        constants = {name: i for i, name in enumerate(query.constants)}

        def slot(atom: Atom, positive: bool) -> Slot:
            head, tail = (constants[end.name] if isinstance(end, Constant) else end for end in atom.terms)
            return Slot(relations[atom.relation], head, tail, positive)

        conjunctions = (tuple(slot(x.atom, x.positive) for x in each) for each in query.conjunctions())
        return cls(query, tuple(relations), tuple(constants), tuple(conjunctions))

    @property
    def negated(self) -> tuple[Slot, ...]:
        """The negated atoms, each once."""
        return tuple(dict.fromkeys(slot for c in self.conjunctions for slot in c if not slot.positive))

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The conjunctions, those as one that can be: a union that a path goes on from need not be two paths."""
        found = []
        left = list(self.conjunctions)
        split = cache(_split_listing)
        while left:
            seeded = sorted({v for slot in left[0] if slot.seeds for v in slot.variables}, key=str)
            alike = {
                v: [c for c in left if split(c, v)[0] == split(left[0], v)[0] and split(c, v)[1]]
                for v in seeded
            }
            best = max(seeded, key=lambda v: len(alike[v]), default=None)
            if best is None or len(alike[best]) == 1:
                found.append(Branch(left.pop(0)))
                continue
            rest = tuple(slot for slot in left[0] if slot not in split(left[0], best)[1])
            found.append(Branch(rest, best, tuple(split(c, best)[1] for c in alike[best])))
            done = set(alike[best])
            left = [c for c in left if c not in done]
        return tuple(found)


@frozen(eq=False)
class Groundings:
    """Many groundings of one template, by id.

    Args:
        relations, constants: what the slots stand for: int64 [n, r], [n, c].
        free: the only entity that each is asked about, if there is one: int64 [n].
    """

    relations: Ints
    constants: Ints
    free: Ints | None = None

    def __len__(self) -> int:
        return len(self.relations)

    def __getitem__(self, rows: Ints | Bools | slice) -> Groundings:
        free = None if self.free is None else self.free[rows]
        return Groundings(self.relations[rows], self.constants[rows], free)

    @classmethod
    def concatenate(cls, parts: Sequence[Groundings]) -> Groundings:
        """One after another; all of them are asked about one entity, or none is."""
        free = [p.free for p in parts if p.free is not None]
        return cls(
            np.concatenate([p.relations for p in parts]),
            np.concatenate([p.constants for p in parts]),
            np.concatenate(free) if free else None,
        )


def _split_listing(
    conjunction: tuple[Slot, ...], variable: Variable
) -> tuple[frozenset[Slot], tuple[Slot, ...]]:
    """What a conjunction says apart from the atoms that list values of a variable, and those atoms."""
    listing = tuple(slot for slot in conjunction if slot.seeds and variable in slot.variables)
    return frozenset(conjunction).difference(listing), listing
