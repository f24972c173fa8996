"""Answers in several worlds at once: the graph of each split, and what the query would give without one of its parts.

A sampled query needs its answers on three graphs, and its checks compare them with the answers of variants that
lack one negated atom or all branches but one. All of these differ only in which atoms count as true. So each gets a
bit, an atom at a triple has the set of bits in which it is true, an assignment has the intersection over its atoms,
and an answer the union over its assignments: one pass answers them all.

The pass binds a variable at a time, for each query of the batch the one that is reached over fewest triples, and by
the atom that leaves fewest values. An existential variable whose neighbours are all bound is no column: its values
are tried until one suffices. The semantics are those of `engine`, which tests hold it against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray
from peirce.errors import TaskError

from peirce_kg.engine.template import Groundings, Slot, Template
from peirce_kg.graphs.graph import SPLITS, Bools, Ints
from peirce_kg.graphs.index import spans
from peirce_kg.queries.language import FREE, Variable
from peirce_kg.sampling.lookup import ABSENT, Lookup
from peirce_kg.sampling.world_tables import Bits, Link, Table, distinct, fewest, joined

LIMIT = 4_000_000
"""Rows that an intermediate table may have; a batch is split before a query is given up."""

AT_ONCE = 2**17
"""Rows up to which queries are treated together: as many as a processor's cache holds."""


@frozen(eq=False)
class Worlds:
    """The worlds of a template that is sampled from the graph of one split, and their bits.

    Args:
        template: the abstract query.
        own: the level of the split that is sampled from.
        splits: the bit of each split.
        without: the bits of the worlds on the own split that lack one negated atom each.
        branches: the bits of the branches of a disjunction, each by itself; none where there is but one.
        positive: [levels + 1], the worlds in which an atom is true, by the level of its triple.
        negative: the same for each negated atom.
    """

    template: Template
    own: int
    splits: Bits
    without: Bits
    branches: Bits
    positive: Bits
    negative: Mapping[Slot, Bits]

    @classmethod
    def of(cls, template: Template, own: int) -> Worlds:
        """The worlds of a template.

        Raises:
            TaskError: it has too many negated atoms and branches.
        """
        negated, branches = template.negated, len(template.conjunctions)
        first = len(SPLITS) + len(negated)
        count = first + (branches if branches > 1 else 0)
        if count > 64:
            raise TaskError(
                f"{template.query}: {len(negated)} negated atoms and {branches} branches are too many to sample; "
                "together there may be 61"
            )
        dtype = next(d for d in (np.uint8, np.uint16, np.uint32, np.uint64) if count <= 8 * d().itemsize)
        bits = np.left_shift(np.ones(count, dtype), np.arange(count, dtype=dtype))
        # the level of the graph of each world, and in which of these graphs a triple of each level is
        within = np.array([*range(len(SPLITS)), *[own] * len(negated)])
        holds = np.arange(ABSENT + 1)[:, None] <= within

        def worlds(true: Bools) -> Bits:
            return np.where(true, bits[:first], 0).sum(axis=1).astype(dtype)

        lacks = {slot: np.arange(first) == len(SPLITS) + i for i, slot in enumerate(negated)}
        return cls(
            template,
            own,
            splits=bits[: len(SPLITS)],
            without=bits[len(SPLITS) : first],
            branches=bits[first:],
            positive=worlds(holds),
            negative={slot: worlds(~holds | lacking) for slot, lacking in lacks.items()},
        )

    def true(self, slot: Slot) -> Bits:
        """The worlds in which an atom, or its negation, is true, by the level of the triple."""
        return self.positive if slot.positive else self.negative[slot]


@frozen(eq=False)
class Found:
    """What a batch of queries gives: distinct pairs of query and answer with the worlds in which it is one.

    query, entity: int64 [m]; worlds: [m]; refused: bool [n], queries with more answers than the cap allows, or too
    large, whose pairs may be incomplete.
    """

    query: Ints
    entity: Ints
    worlds: Bits
    refused: Bools

    def having(self, pairs: Bools) -> Ints:
        """How many of some pairs each query has: int64 [n]."""
        return np.bincount(self.query[pairs], minlength=len(self.refused))


def solve(worlds: Worlds, groundings: Groundings, lookup: Lookup, cap: int) -> Found:
    """The answers of a batch in every world; queries with more than `cap` on the own split are refused."""
    refused = np.zeros(len(groundings), dtype=bool)
    parts = []
    for number, slots in enumerate(worlds.template.conjunctions):
        table = _Branch(groundings, lookup, worlds, cap, refused).solve(slots)
        if len(worlds.branches):
            here = table.worlds & worlds.splits[worlds.own] != 0
            table = evolve(table, worlds=table.worlds | np.where(here, worlds.branches[number], 0))
        parts.append(table)
    table = distinct(joined(parts), lookup.entities) if len(parts) > 1 else parts[0]
    return Found(table.query, table.columns[FREE].astype(np.int64), table.worlds, refused)


class _Branch:
    """One conjunction for a batch of groundings."""

    def __init__(
        self, groundings: Groundings, lookup: Lookup, worlds: Worlds, cap: int, refused: Bools
    ) -> None:
        self.lookup, self.worlds, self.cap, self.refused = lookup, worlds, cap, refused
        self.relations = [np.ascontiguousarray(column) for column in groundings.relations.T]
        self.constants = [np.ascontiguousarray(column) for column in groundings.constants.T]

    def solve(self, slots: Sequence[Slot]) -> Table:
        """The answers, as a table of f."""
        queries = np.flatnonzero(~self.refused)
        everywhere = np.full(
            len(queries), np.bitwise_or.reduce(self.worlds.positive), self.worlds.positive.dtype
        )
        return self._solve(Table(queries, everywhere, {}), list(slots))

    def _solve(self, table: Table, pending: list[Slot]) -> Table:
        table, pending = self._settled(table, pending)
        unbound = _variables(pending) | {FREE}
        unbound -= table.columns.keys()
        if not unbound:
            return table
        parts = [Table(table.query[:0], table.worlds[:0], {FREE: table.query[:0]})]
        for variable, part, links in self._choices(table, pending, unbound):
            if links:
                parts += [
                    self._solve(self._extended(some, variable, few), _without(pending, few))
                    for some, few in self._affordable(*self._promising(part, pending, variable, links))
                ]
            else:
                parts += [
                    self._solve(*self._listed(some, pending, variable))
                    for some, _ in self._affordable(part, [])
                ]
        return joined(parts)

    # -- what narrows a table ---------------------------------------------------------------------------------------

    def _settled(self, table: Table, pending: list[Slot]) -> tuple[Table, list[Slot]]:
        """Apply every atom that needs no further column, then let go of the columns that no atom needs."""
        bound = table.columns.keys()
        for slot in [slot for slot in pending if slot.variables <= bound]:
            table = table.within(table.worlds & self.worlds.true(slot).take(self._level(slot, table)))
            pending = [other for other in pending if other != slot]
        for variable in sorted(_variables(pending) - bound - {FREE}, key=str):
            slots = [slot for slot in pending if variable in slot.variables]
            if _variables(slots) - bound == {variable} and any(
                _leads(slot, variable, bound) for slot in slots
            ):
                table = table.within(self._existing(table, variable, slots))
                pending = [slot for slot in pending if slot not in slots]
        kept = {v: c for v, c in table.columns.items() if v == FREE or v in _variables(pending)}
        if len(kept) < len(table.columns):
            table = distinct(evolve(table, columns=kept), self.lookup.entities)
        return table, pending

    def _level(self, slot: Slot, table: Table) -> NDArray[np.uint8]:
        relation = self.relations[slot.relation].take(table.query)
        return self.lookup.level(relation, self._end(slot.head, table), self._end(slot.tail, table))

    def _end(self, end: int | Variable, table: Table) -> Ints:
        if isinstance(end, Variable):
            return table.columns[end].astype(np.int64, copy=False)
        return self.constants[end].take(table.query)

    def _existing(self, table: Table, variable: Variable, slots: list[Slot]) -> Bits:
        """The worlds of each row in which some value of a variable makes all of its atoms true."""
        links = self._links(table, slots, variable)
        if len(slots) == 1:
            return table.worlds & self.worlds.positive.take(self.lookup.nearest.take(links[0].owner))
        chosen, owner, size = fewest(links)
        start = self.lookup.edges.start.take(owner)
        worlds = np.zeros_like(table.worlds)
        going, tried, step = np.flatnonzero(size), 0, 4
        while len(going):
            step = max(1, min(step, LIMIT // len(going)))
            count = np.minimum(size.take(going) - tried, step)
            candidates = self._stepped(table, variable, going, start.take(going) + tried, count)
            row = np.repeat(going, count)
            alive = self._filtered(candidates, links, slots, chosen.take(row))
            first = np.cumsum(count) - count
            worlds[going] |= np.bitwise_or.reduceat(alive, first)
            tried += step
            step *= 4
            going = going[(worlds.take(going) != table.worlds.take(going)) & (size.take(going) > tried)]
        return worlds

    def _filtered(self, table: Table, links: Sequence[Link], slots: Sequence[Slot], chosen: Ints) -> Bits:
        """The worlds of each row in which the atoms hold; link number `chosen` is known to."""
        worlds = table.worlds
        numbers = {link.slot: number for number, link in enumerate(links)}
        for slot in slots:
            open_ = worlds != 0
            if slot in numbers:
                open_ &= chosen != numbers[slot]
            rows = np.flatnonzero(open_)
            if len(rows):
                held = self.worlds.true(slot).take(self._level(slot, table.rows(rows)))
                worlds = worlds.copy()
                worlds[rows] &= held
        return worlds

    # -- what widens it ---------------------------------------------------------------------------------------------

    def _links(self, table: Table, pending: Sequence[Slot], variable: Variable) -> list[Link]:
        links = []
        for slot in pending:
            if _leads(slot, variable, table.columns.keys()):
                heads = slot.tail == variable
                relation = self.relations[slot.relation].take(table.query)
                known = self._end(slot.head if heads else slot.tail, table)
                owner = self.lookup.owner(relation, known, heads=heads)
                links.append(Link(slot, owner, self.lookup.edges.sizes(owner)))
        return links

    def _choices(
        self, table: Table, pending: list[Slot], unbound: set[Variable]
    ) -> list[tuple[Variable, Table, list[Link]]]:
        """Which variable comes next, by query: the one that is reached over fewest edges."""
        links = {v: found for v in sorted(unbound, key=str) if (found := self._links(table, pending, v))}
        if not links:
            # f first: the existential variables beside it are then looked for, not listed
            return [(FREE if FREE in unbound else min(unbound, key=str), table, [])]
        # a variable that only negations tie to others narrows nothing: it waits until they are bound
        ties = {
            v
            for slot in pending
            if slot.positive and len(slot.variables & unbound) == 2
            for v in slot.variables
        }
        eager = {v: found for v, found in links.items() if v == FREE or v in ties} or links
        if len(eager) == 1:
            return [(variable, table, found) for variable, found in eager.items()]
        costs = np.stack(
            [
                np.bincount(table.query, np.minimum.reduce([link.size for link in found]), len(self.refused))
                for found in eager.values()
            ]
        )
        best = costs.argmin(axis=0).take(table.query)
        parts = []
        for number, (variable, found) in enumerate(eager.items()):
            rows = np.flatnonzero(best == number)
            if len(rows):
                parts.append((variable, table.rows(rows), [link.rows(rows) for link in found]))
        return parts

    def _promising(
        self, table: Table, pending: list[Slot], variable: Variable, links: list[Link]
    ) -> tuple[Table, list[Link]]:
        """Refuse queries for which one value of the last variable but f leads to too many answers."""
        if variable == FREE and [link.slot for link in links] == pending:
            own = self.worlds.own
            many = self.lookup.edges.sizes(links[0].owner, own) > self.cap
            many &= table.worlds & self.worlds.splits[own] != 0
            if len(links) == 1 and many.any():
                self.refused[table.query[many]] = True
                rows = np.flatnonzero(~self.refused.take(table.query))
                return table.rows(rows), [link.rows(rows) for link in links]
        return table, links

    def _affordable(self, table: Table, links: list[Link]) -> list[tuple[Table, list[Link]]]:
        """The table in parts that can be widened within the limit; single queries that cannot are refused."""
        if not len(table):
            return []
        size = (
            fewest(links)[2]
            if links
            else np.full(len(table), max(self.lookup.entities, self.lookup.size(ABSENT)))
        )
        total = size.sum()
        low, high = int(table.query.min()), int(table.query.max())
        if total <= AT_ONCE or (low == high and total <= LIMIT):
            return [(table, links)]
        if low == high:
            self.refused[low] = True
            return []
        lower = table.query <= (low + high) // 2
        return [
            part
            for rows in (np.flatnonzero(lower), np.flatnonzero(~lower))
            for part in self._affordable(table.rows(rows), [link.rows(rows) for link in links])
        ]

    def _extended(self, table: Table, variable: Variable, links: list[Link]) -> Table:
        """The table with a variable more: in each row, the values that all of its links allow."""
        chosen, owner, size = fewest(links)
        rows = np.arange(len(table))
        wider = self._stepped(table, variable, rows, self.lookup.edges.start.take(owner), size)
        if len(links) == 1:
            return wider.within(wider.worlds)
        slots = [link.slot for link in links]
        return wider.within(self._filtered(wider, links, slots, np.repeat(chosen, size)))

    def _stepped(self, table: Table, variable: Variable, rows: Ints, start: Ints, count: Ints) -> Table:
        """Some rows, each with `count` of the edges from `start` on."""
        places = spans(start, count)
        wider = table.rows(np.repeat(rows, count))
        return Table(
            wider.query,
            wider.worlds & self.worlds.positive.take(self.lookup.edges.levels.take(places)),
            {**wider.columns, variable: self.lookup.edges.items.take(places)},
        )

    def _listed(self, table: Table, pending: list[Slot], variable: Variable) -> tuple[Table, list[Slot]]:
        """The table with a variable more that nothing bound leads to: the ends of a relation, or all entities."""
        slot = next((slot for slot in pending if slot.positive and variable in slot.variables), None)
        if slot is None:
            every = np.arange(self.lookup.entities)
            wider = table.rows(np.repeat(np.arange(len(table)), len(every)))
            column = np.tile(every, len(table))
            return evolve(wider, columns={**wider.columns, variable: column}), pending
        relation = self.relations[slot.relation].take(table.query)
        count = self.lookup.of_relation.sizes(relation)
        numbers = self.lookup.of_relation.items.take(
            spans(self.lookup.of_relation.start.take(relation), count)
        )
        head, _, tail = self.lookup.triples[numbers].T
        wider = table.rows(np.repeat(np.arange(len(table)), count))
        worlds = wider.worlds & self.worlds.positive.take(self.lookup.levels.take(numbers))
        if slot.head == slot.tail:
            worlds = np.where(head == tail, worlds, 0)
        ends = {slot.head: head, slot.tail: tail}
        wider = evolve(
            wider, columns={**wider.columns, **{v: c for v, c in ends.items() if isinstance(v, Variable)}}
        )
        return wider.within(worlds), [other for other in pending if other != slot]


def _variables(slots: Sequence[Slot]) -> set[Variable]:
    return {variable for slot in slots for variable in slot.variables}


def _leads(slot: Slot, variable: Variable, bound: Set[Variable]) -> bool:
    """Whether an atom lists the values of a variable, given what is bound."""
    return slot.positive and slot.head != slot.tail and slot.variables - bound == {variable}


def _without(pending: Sequence[Slot], links: Sequence[Link]) -> list[Slot]:
    used = {link.slot for link in links}
    return [slot for slot in pending if slot not in used]
