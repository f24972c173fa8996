"""The exact engine: every answer of any existential first-order query, by the formula's own semantics.

An existential variable is quantified outermost over the whole formula and ranges over all entities; distinct variables
may coincide; a negated atom is false of the pair. So `r1(s1,e1) & !r2(e1,f)` asks for some e1 with r1(s1,e1) for which
r2(e1,f) does not hold, which is not the complement of a projected set.

Existentials commute with disjunction, so each conjunction of the disjunctive normal form is answered by itself. A whole
batch of groundings of one abstract query is answered at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from peirce_queries.engine.assignments import CELLS, Space
from peirce_queries.engine.budget import Budget, QueryTooLargeError
from peirce_queries.engine.conjunction import Conjunction
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.graphs.graph import Graph, Index, Ints
from peirce_queries.graphs.index import Bools, spans
from peirce_queries.languages.language import FIRST, FREE, SECOND, Query, Variable

LIMIT = 20_000_000
"""Rows that one intermediate table may have; 8 bytes a column each."""
SHOWN = 160
"""Characters of a query that an error shows."""


@frozen(eq=False)
class Answers:
    """A set of entities per query. offsets: int64 [n + 1]; entities: int64, sorted within each query."""

    offsets: Ints
    entities: Ints

    @classmethod
    def of(cls, keys: Ints, queries: int, entities: int) -> Answers:
        """From sorted distinct keys, query * entities + entity."""
        query, entity = np.divmod(keys, entities)
        return cls(np.searchsorted(query, np.arange(queries + 1)), entity)

    @classmethod
    def concatenate(cls, parts: Sequence[Answers]) -> Answers:
        """One after another."""
        counts = np.concatenate([np.zeros(1, np.int64), *(part.counts for part in parts)])
        entities = np.concatenate([np.empty(0, np.int64), *(part.entities for part in parts)])
        return cls(np.cumsum(counts), entities)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> Ints:
        return self.entities[self.offsets[query] : self.offsets[query + 1]]

    @property
    def counts(self) -> Ints:
        """How many answers each query has: int64 [n]."""
        return np.diff(self.offsets)

    @property
    def queries(self) -> Ints:
        """The query that each of `entities` answers."""
        return np.repeat(np.arange(len(self)), self.counts)

    def keys(self, entities: int) -> Ints:
        """Sorted distinct keys, query * entities + entity."""
        return self.queries * entities + self.entities

    def minus(self, other: Answers, entities: int) -> Answers:
        """The answers that the other, of the same queries, lacks."""
        keep = np.setdiff1d(self.keys(entities), other.keys(entities), assume_unique=True)
        return Answers.of(np.sort(keep), len(self), entities)

    def select(self, rows: Ints) -> Answers:
        """The answers of some of the queries, in the order of `rows`."""
        counts = self.counts[rows]
        entities = self.entities[spans(self.offsets[rows], counts)]
        return Answers(np.concatenate([[0], np.cumsum(counts)]), entities)


def to_ids(query: Query, graph: Graph) -> tuple[Template, Groundings]:
    """A grounded query as a template with one grounding.

    Raises:
        TaskError: a relation or an entity is not in the graph; the nearest names are listed.
    """
    template = Template.of(query)
    relations = [[graph.relation(name) for name in template.relations]]
    constants = [[graph.entity(name) for name in template.constants]]
    return template, Groundings(np.array(relations, np.int64), np.array(constants, np.int64).reshape(1, -1))


def answer(query: Query, graph: Graph, index: Index, budget: Budget | None = None) -> Ints:
    """The answers of one grounded query on one of the graph's indexes, sorted ids; see `to_ids` and `answers`."""
    return answers(*to_ids(query, graph), index, budget=budget)[0]


def answers(
    template: Template, groundings: Groundings, index: Index, limit: int = LIMIT, budget: Budget | None = None
) -> Answers:
    """The answers of many groundings of one template.

    Args:
        template, groundings, index: the abstract query, the ids for its slots, and the graph.
        limit: rows that a table may have; a batch is split before it is refused.
        budget: what all of it may cost: seconds of the whole, and rows in all of each part that a batch is split into.

    Raises:
        QueryTooLargeError: one query alone needs more, or the time is over; the part of the query is named.
    """
    parts = []
    for found, error in _answer_in_parts(template, groundings, index, limit, budget or Budget()):
        if error is not None:
            text = str(template.query)
            shown = text if len(text) <= SHOWN else f"{text[: SHOWN - 4]} ..."
            raise QueryTooLargeError(
                f"{shown}: {error}; name more entities in the query, split it, or raise the limit or the budget if "
                "memory and time allow"
            ) from error
        parts.append(found)
    return Answers.concatenate(parts)


def pair_answers(
    template: Template, groundings: Groundings, index: Index, limit: int = LIMIT, budget: Budget | None = None
) -> list[Ints]:
    """The answers of many groundings of a template with two free variables: int64 [pairs, 2] of each, sorted.

    First f1 is asked for, and f2 exists; then f2 is, with each value of f1 as one more constant.

    Raises:
        QueryTooLargeError: there are more pairs than the limit, or `answers` refuses one of the two.
    """
    budget = budget or Budget()

    def variant(names: Mapping[Variable, int | Variable], **changes: Any) -> Template:
        def end(old: int | Variable) -> int | Variable:
            return names.get(old, old) if isinstance(old, Variable) else old

        slots = (
            [evolve(s, head=end(s.head), tail=end(s.tail)) for s in each] for each in template.conjunctions
        )
        return evolve(template, conjunctions=tuple(map(tuple, slots)), **changes)

    first = answers(variant({FIRST: FREE}), groundings, index, limit, budget)
    second = variant(
        {FIRST: len(template.constants), SECOND: FREE}, constants=(*template.constants, FIRST.name)
    )
    queries, pairs = [np.empty(0, np.int64)], [np.empty((0, 2), np.int64)]
    step = max(1, CELLS // index.entities)
    for start in range(0, len(first.entities), step):
        rows, values = (of[start : start + step] for of in (first.queries, first.entities))
        constants = np.column_stack([groundings.constants[rows], values])
        found = answers(second, Groundings(groundings.relations[rows], constants), index, limit, budget)
        queries.append(rows[found.queries])
        pairs.append(np.column_stack([values[found.queries], found.entities]))
        if sum(map(len, queries)) > limit:
            raise QueryTooLargeError(
                f"{template.query} has more than {limit:,} pairs; name more entities in it"
            )
    ends = np.searchsorted(np.concatenate(queries), np.arange(1, len(groundings)))
    return np.split(np.concatenate(pairs), ends)


def answers_within(
    template: Template, groundings: Groundings, index: Index, limit: int
) -> tuple[Answers, Bools]:
    """As `answers`, but a query that needs more than the limit, or `ROWS` in all, is marked in bool [n], unanswered.

    No time counts here, so that sampling depends on nothing but its seed.
    """
    parts = list(_answer_in_parts(template, groundings, index, limit, Budget()))
    refused = [np.full(len(found), error is not None) for found, error in parts]
    return Answers.concatenate([found for found, _ in parts]), np.concatenate(refused)


def _answer_in_parts(
    template: Template, groundings: Groundings, index: Index, limit: int, budget: Budget
) -> Iterator[tuple[Answers, QueryTooLargeError | None]]:
    """The answers of a few groundings at a time; of a single one that needs too much none, and the reason."""
    count, size = len(groundings), max(1, CELLS // index.entities)
    if count > size:
        for start in range(0, count, size):
            yield from _answer_in_parts(template, groundings[start : start + size], index, limit, budget)
        return
    space, found = Space(count, index.entities), []
    budget.spent = 0
    branches = template.branches
    try:
        for number, branch in enumerate(branches, 1):
            budget.doing = f"conjunction {number:,} of {len(branches):,}"
            found.append(Conjunction(branch, groundings, index, space, limit, budget).answers())
    except QueryTooLargeError as error:
        if count <= 1 or budget.is_out_of_time:
            yield Answers.of(np.empty(0, np.int64), count, index.entities), error
        else:
            for half in (slice(count // 2), slice(count // 2, None)):
                yield from _answer_in_parts(template, groundings[half], index, limit, budget)
    else:
        yield Answers.of(space.distinct(np.concatenate(found)), count, index.entities), None
