"""Abstract queries prepared for grounding: atoms over slots, and batches of ids for the slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from attrs import evolve, frozen
from peirce.errors import TaskError

from peirce_plugins.tasks.kgqa.index import Bools, Ints
from peirce_plugins.tasks.kgqa.language import Constant, Query, Term, Variable


class QueryTooLargeError(TaskError):
    """A query whose exact answer would need more memory than the engine may use."""


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


@frozen
class Template:
    """An abstract query prepared for grounding.

    Args:
        query: the query.
        relations: the names that relation slots stand for, in order.
        constants: the names that constant slots stand for, in order.
        conjunctions: the disjunctive normal form over slots.
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

        def end(term: Term) -> int | Variable:
            return constants[term.name] if isinstance(term, Constant) else term

        conjunctions = tuple(
            tuple(
                Slot(relations[lit.atom.relation], end(lit.atom.head), end(lit.atom.tail), lit.positive)
                for lit in conjunction
            )
            for conjunction in query.conjunctions()
        )
        return cls(query, tuple(relations), tuple(constants), conjunctions)

    @property
    def negated(self) -> tuple[Slot, ...]:
        """The negated atoms, each once."""
        return tuple(dict.fromkeys(slot for c in self.conjunctions for slot in c if not slot.positive))

    def without(self, dropped: Slot) -> Template:
        """The same with one negated atom taken for true."""
        return evolve(
            self, conjunctions=tuple(tuple(slot for slot in c if slot != dropped) for c in self.conjunctions)
        )

    def only(self, conjunctions: Iterable[int]) -> Template:
        """The same with some of the conjunctions only."""
        return evolve(self, conjunctions=tuple(self.conjunctions[i] for i in conjunctions))


@frozen(eq=False)
class Groundings:
    """Many groundings of one template, by id. relations: int64 [n, r]; constants: int64 [n, c]."""

    relations: Ints
    constants: Ints

    def __len__(self) -> int:
        return len(self.relations)

    def __getitem__(self, rows: Ints | Bools | slice) -> Groundings:
        return Groundings(self.relations[rows], self.constants[rows])

    @classmethod
    def joined(cls, parts: Sequence[Groundings]) -> Groundings:
        """One after another."""
        return cls(np.concatenate([p.relations for p in parts]), np.concatenate([p.constants for p in parts]))
