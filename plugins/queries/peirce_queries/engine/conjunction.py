"""Answers one conjunction for a batch of groundings, by narrowing each variable's values and joining only cycles.

Atoms with a constant give their variable a domain. Then leaves go: an existential variable that shares atoms with one
other variable narrows that variable's domain to the values that some of its own go with, and is done with. What is
left without leaves has cycles: its variables are joined one after another into a table, each along the atom that has
fewest edges at the row, the other atoms looked up. So a tree costs its edges, and no table of pairs outlives its leaf.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import numpy as np
from attrs import evolve

from peirce_queries.engine.assignments import Assignments, AtomEdges, Expansion, Space, distinct
from peirce_queries.engine.budget import Budget, QueryTooLargeError
from peirce_queries.engine.template import Branch, Groundings, Slot
from peirce_queries.graphs.index import Bools, Index, Ints, spans
from peirce_queries.languages.language import FREE, Variable


class Conjunction:
    """One conjunction, or several as one, for a batch of groundings.

    Args:
        branch: its atoms and negated atoms.
        groundings, space: the batch, and its keys.
        index: the graph.
        limit: rows that a table may have.
        budget: what it may cost; `doing` says which conjunction it is.
    """

    def __init__(
        self, branch: Branch, groundings: Groundings, index: Index, space: Space, limit: int, budget: Budget
    ) -> None:
        self.index, self.space, self.limit = index, space, limit
        self.budget, self.which = budget, budget.doing
        self.relations = [np.ascontiguousarray(column) for column in groundings.relations.T]
        self.constants = [np.ascontiguousarray(column) for column in groundings.constants.T]
        self.free = groundings.free
        self.alive = np.ones(len(groundings), dtype=bool)
        self.branch, slots = branch, branch.slots
        self.links = [slot for slot in slots if len(slot.variables) == 2]
        self.links_of: defaultdict[Variable, list[Slot]] = defaultdict(list)
        for slot in self.links:
            for variable in slot.variables:
                self.links_of[variable].append(slot)
        self.domains: dict[Variable, Ints] = {}
        variables = {FREE}.union(*(slot.variables for slot in (*slots, *chain(*branch.either))))
        self.unary = {v: [s for s in slots if s.variables == {v}] for v in sorted(variables, key=str)}
        everything = Assignments(np.arange(len(groundings)), {})
        for slot in slots:
            if not slot.variables:
                self.alive &= self._holds(slot, everything)

    def answers(self) -> Ints:
        """Distinct keys, in any order; a `QueryTooLargeError` where a table would be too large."""
        for variable in self.unary:
            self._start_step(variable)
            self._seed(variable)
        if self.free is not None:
            only = np.arange(len(self.free)) * self.space.entities + self.free
            listed = self.domains.get(FREE)
            self._bind(FREE, only if listed is None else listed[self.space.are_in(listed, only)])
        while self.links:
            if (leaf := self._leaf()) is not None:
                self._absorb(leaf)
            else:
                self._join()
        for variable in [v for v in self.unary if v != FREE]:
            self._start_step(variable)
            self._require(self._values(variable) // self.space.entities)
            self._drop(variable)
        keys = self._values(FREE)
        return keys if self.alive.all() else keys[self.alive[keys // self.space.entities]]

    # -- domains ----------------------------------------------------------------------------------------------------

    def _seed(self, variable: Variable) -> None:
        """Give a variable its domain from its atoms with constants, where it has some."""
        if variable == self.branch.variable:
            listed = [self._list(variable, slots) for slots in self.branch.either]
            self._bind(variable, self.space.distinct(np.concatenate(listed)))
        elif slots := [slot for slot in self.unary[variable] if slot.seeds]:
            self.unary[variable] = [slot for slot in self.unary[variable] if not slot.seeds]
            self._bind(variable, self._list(variable, slots))

    def _list(self, variable: Variable, slots: Sequence[Slot]) -> Ints:
        """The values that atoms with constants allow, for each query from the one with fewest edges."""
        with self._postpone(variable):
            queries = Assignments(np.flatnonzero(self.alive), {})
            return self._keys(self._follow(self._expansion(variable, queries, slots)), variable)

    def _bind(self, variable: Variable, keys: Ints) -> None:
        """Set a domain, distinct keys, narrowed by the atoms that concern the variable alone."""
        slots, self.unary[variable] = self.unary[variable], []
        if slots:
            keys = self._keys(self._filter(self._assignments(variable, keys), slots), variable)
        self.domains[variable] = keys

    @contextmanager
    def _postpone(self, variable: Variable) -> Iterator[None]:
        """Set aside the atoms of a variable alone inside the block; they are checked when it is bound."""
        slots, self.unary[variable] = self.unary[variable], []
        yield
        self.unary[variable] = slots

    def _values(self, variable: Variable) -> Ints:
        """The domain of a variable; every entity where nothing gave it one."""
        if variable not in self.domains:
            queries = np.flatnonzero(self.alive)
            if loops := [slot for slot in self.unary[variable] if slot.positive]:
                keys = self._keys(self._edges(loops[0], queries), variable)
            else:
                self._spend_rows(len(queries) * self.space.entities)
                keys = self.space.everything(queries)
            self._bind(variable, keys)
        return self.domains[variable]

    def _drop(self, variable: Variable) -> None:
        self.domains.pop(variable, None)
        del self.unary[variable]

    def _require(self, queries: Ints) -> None:
        """Only these queries can have answers."""
        self.alive &= np.bincount(queries, minlength=len(self.alive)) > 0

    # -- leaves -----------------------------------------------------------------------------------------------------

    def _leaf(self) -> Variable | None:
        """The existential variable with one neighbour that costs least: those without a domain last."""
        leaves = [v for v in self._linked_variables() if v != FREE and len(self._neighbours(v)) == 1]
        if not leaves:
            return None

        def cost(leaf: Variable) -> tuple[bool, bool, int, str]:
            (other,) = self._neighbours(leaf)
            sizes = [len(self.domains[v]) for v in (leaf, other) if v in self.domains]
            negative = not any(slot.positive for slot in self.links_of[leaf])
            return negative, not sizes, min(sizes, default=0), leaf.name

        return min(leaves, key=cost)

    def _linked_variables(self) -> set[Variable]:
        return {variable for variable, slots in self.links_of.items() if slots}

    def _unlink(self, slots: Sequence[Slot]) -> None:
        """These atoms have been used."""
        gone = set(slots)
        self.links = [slot for slot in self.links if slot not in gone]
        for variable in {v for slot in gone for v in slot.variables}:
            self.links_of[variable] = [slot for slot in self.links_of[variable] if slot not in gone]

    def _neighbours(self, variable: Variable) -> set[Variable]:
        return {v for slot in self.links_of[variable] for v in slot.variables} - {variable}

    def _absorb(self, leaf: Variable) -> None:
        """Narrow the one neighbour of a leaf to the values that some value of the leaf goes with."""
        (other,) = self._neighbours(leaf)
        slots = self.links_of[leaf]
        self._start_step(leaf)
        self._unlink(slots)
        narrowed = self._image if any(slot.positive for slot in slots) else self._complement_image
        keys = narrowed(leaf, other, slots)
        self._drop(leaf)
        self._bind(other, keys)

    def _image(self, leaf: Variable, other: Variable, slots: list[Slot]) -> Ints:
        """The values of a variable that go with some value of a leaf by all of their atoms."""
        if leaf in self.domains or self.unary[leaf] or len(slots) > 1:
            with self._postpone(other):
                return self.space.distinct(self._keys(self._pairs(leaf, other, slots), other))
        if other in self.domains:
            keys = self.domains[other]
            self.budget.spend(len(keys))
            return keys[self._expansion(leaf, self._assignments(other, keys), slots).fewest > 0]
        queries = np.flatnonzero(self.alive)
        relation = self.relations[slots[0].relation][queries]
        row, entity = self.index.ends(relation, heads=slots[0].head == other)
        self.budget.spend(len(entity))
        return queries[row] * self.space.entities + entity

    def _pairs(self, one: Variable, other: Variable, slots: list[Slot]) -> Assignments:
        """The values of two variables that their atoms, at least one of them positive, allow together."""
        if known := [v for v in (one, other) if v in self.domains]:
            return self._follow_cheapest(
                [self._expansion_from(v, one if v == other else other, slots) for v in known]
            )
        queries = np.flatnonzero(self.alive)
        smallest = min((slot for slot in slots if slot.positive), key=lambda slot: self._size(slot, queries))
        rest = [slot for slot in slots if slot is not smallest]
        return self._filter(self._edges(smallest, queries), [*rest, *self.unary[one], *self.unary[other]])

    def _complement_image(self, leaf: Variable, other: Variable, slots: list[Slot]) -> Ints:
        """The values of a variable for which some value of a leaf makes all of their negated atoms true.

        Counts, for each value, the leaf's values that make one of the atoms false: the value remains unless those are
        all that there are.
        """
        if self.unary[leaf]:
            self._values(leaf)
        self.domains[other] = keys = np.sort(self._values(other))
        sizes = np.full(len(self.alive), self.space.entities)
        if leaf in self.domains:
            sizes = np.bincount(self.domains[leaf] // self.space.entities, minlength=len(self.alive))
        # a negated atom is false where the positive one leads
        pairs = [self._pairs(leaf, other, [evolve(slot, positive=True)]) for slot in slots]
        false = distinct(Assignments.concatenate(pairs)) if len(slots) > 1 else pairs[0]
        count = np.bincount(np.searchsorted(keys, self._keys(false, other)), minlength=len(keys))
        return keys[count < sizes[keys // self.space.entities]]

    # -- cycles -----------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Join a part that has no leaves, a variable at a time, down to the free variable."""
        with self._postpone(FREE):
            table = self._first_pair()
            joined = set(table.columns)
            table = self._project(table)
            while slots := [slot for slot in self.links if slot.variables & table.columns.keys()]:
                table = self._extend(table, slots)
                joined |= table.columns.keys()
                table = self._project(table)
        if FREE in table.columns:
            self._bind(FREE, self.space.distinct(self._keys(table, FREE)))
        else:
            self._require(table.query)
        for variable in joined - {FREE}:
            self._drop(variable)

    def _first_pair(self) -> Assignments:
        """The two variables whose atoms have fewest edges, or one variable, where no atom is positive."""
        pairs = {slot.variables for slot in self.links if slot.positive}
        if not pairs:
            variable = min(self._linked_variables(), key=lambda v: (v not in self.domains, v == FREE, v.name))
            return self._assignments(variable, self._values(variable))

        def cost(pair: frozenset[Variable]) -> tuple[int, list[str]]:
            slots = [slot for slot in self.links if slot.positive and slot.variables == pair]
            one, other = sorted(pair, key=str)
            known = [(v, to) for v, to in ((one, other), (other, one)) if v in self.domains]
            sizes = [int(self._expansion_from(v, to, slots).fewest.sum()) for v, to in known]
            return min(sizes or [self._size(slot, np.flatnonzero(self.alive)) for slot in slots]), [one.name]

        pair = min(pairs, key=cost)
        slots = [slot for slot in self.links if slot.variables == pair]
        self._unlink(slots)
        one, other = sorted(pair, key=str)
        self._start_step(one)
        return self._pairs(one, other, slots)

    def _extend(self, table: Assignments, slots: list[Slot]) -> Assignments:
        """Join one more variable: the one with fewest edges from the table."""
        found = {to for slot in slots for to in slot.variables - table.columns.keys()}
        expansions = [
            self._expansion(to, table, [slot for slot in slots if to in slot.variables])
            for to in sorted(found, key=str)
        ]
        best = min(expansions, key=lambda expansion: (not expansion.ways, int(expansion.fewest.sum())))
        joined = [slot for slot in slots if best.to in slot.variables]
        self._start_step(best.to)
        self._unlink(joined)
        return self._follow(best) if best.ways else self._filter(self._cross(table, best.to), joined)

    def _cross(self, table: Assignments, to: Variable) -> Assignments:
        """Each row with each value of a variable."""
        keys = np.sort(self._values(to))
        start, stop = (np.searchsorted(keys, (table.query + end) * self.space.entities) for end in (0, 1))
        self._spend_rows(int((stop - start).sum()))
        rows = table.rows(np.repeat(np.arange(len(table)), stop - start))
        values = keys[spans(start, stop - start)] % self.space.entities
        return Assignments(rows.query, {**rows.columns, to: values})

    def _project(self, table: Assignments) -> Assignments:
        """Without the columns that no atom needs any more."""
        needed = self._linked_variables() | {FREE}
        kept = {v: column for v, column in table.columns.items() if v in needed}
        left = Assignments(table.query, kept)
        return left if len(kept) == len(table.columns) or kept.keys() == {FREE} else distinct(left)

    # -- atoms ------------------------------------------------------------------------------------------------------

    def _expansion_from(self, known: Variable, to: Variable, slots: list[Slot]) -> Expansion:
        return self._expansion(to, self._assignments(known, self.domains[known]), slots)

    def _expansion(self, to: Variable, table: Assignments, slots: Sequence[Slot]) -> Expansion:
        ways = []
        for slot in slots:
            heads = slot.tail == to
            known = self._end(slot.head if heads else slot.tail, table)
            group = self.index.groups(self.relations[slot.relation][table.query], known, heads=heads)
            ways.append(AtomEdges(slot, heads, group, *self.index.edges(group, heads=heads)))
        return Expansion(to, table, ways)

    def _follow_cheapest(self, expansions: list[Expansion]) -> Assignments:
        """The pairs of two variables, for each query from the one from which the other is reached over fewer edges."""
        if len(expansions) == 1:
            return self._follow(expansions[0])
        costs = [np.bincount(r.table.query, r.fewest, minlength=len(self.alive)) for r in expansions]
        best = np.argmin(costs, axis=0)
        self._spend_rows(int(np.min(costs, axis=0).sum()))
        followed = [self._follow(r, best[r.table.query] == number) for number, r in enumerate(expansions)]
        return Assignments.concatenate(followed)

    def _follow(self, expansion: Expansion, some: Bools | None = None) -> Assignments:
        """Each row, or some of them, with the values that all of its atoms allow: the edges of the atom with fewest are
        gone through, the other atoms looked up."""
        counts = expansion.fewest if some is None else np.where(some, expansion.fewest, 0)
        self._spend_rows(int(counts.sum()))
        if len(expansion.ways) == 1:
            return self._follow_way(expansion, 0, counts)
        best = np.argmin([way.counts for way in expansion.ways], axis=0)
        chosen = [np.where(best == number, counts, 0) for number in range(len(expansion.ways))]
        followed = [self._follow_way(expansion, number, each) for number, each in enumerate(chosen)]
        return Assignments.concatenate(followed)

    def _follow_way(self, expansion: Expansion, number: int, counts: Ints) -> Assignments:
        way = expansion.ways[number]
        row = np.repeat(np.arange(len(counts)), counts)
        values = self.index.others(spans(way.start, counts), heads=way.heads)
        if expansion.to in self.domains:
            keys = expansion.table.query[row] * self.space.entities + values
            kept = self.space.are_in(keys, self.domains[expansion.to])
            row, values = row[kept], values[kept]
        for other in [*expansion.negated, *(w for w in expansion.ways if w is not way)]:
            kept = self.index.linked(other.group[row], values, heads=other.heads) == other.slot.positive
            row, values = row[kept], values[kept]
        table = expansion.table.rows(row)
        table = Assignments(table.query, {**table.columns, expansion.to: values})
        return self._filter(table, self.unary[expansion.to])

    def _edges(self, slot: Slot, queries: Ints) -> Assignments:
        """All edges of an atom between variables."""
        start, stop = self.index.of_relation(self.relations[slot.relation][queries])
        self._spend_rows(int((stop - start).sum()))
        head, _, tail = self.index.triples(spans(start, stop - start))
        assert isinstance(slot.head, Variable)
        assert isinstance(slot.tail, Variable)
        table = Assignments(np.repeat(queries, stop - start), {slot.head: head, slot.tail: tail})
        return table.rows(head == tail) if slot.head == slot.tail else table

    def _size(self, slot: Slot, queries: Ints) -> int:
        start, stop = self.index.of_relation(self.relations[slot.relation][queries])
        return int((stop - start).sum())

    def _filter(self, table: Assignments, slots: Sequence[Slot]) -> Assignments:
        for slot in slots:
            table = table.rows(self._holds(slot, table))
        return table

    def _holds(self, slot: Slot, table: Assignments) -> Bools:
        relation = self.relations[slot.relation][table.query]
        found = self.index.contains(relation, self._end(slot.head, table), self._end(slot.tail, table))
        return found == slot.positive

    def _end(self, end: int | Variable, table: Assignments) -> Ints:
        return table.columns[end] if isinstance(end, Variable) else self.constants[end][table.query]

    def _assignments(self, variable: Variable, keys: Ints) -> Assignments:
        query = keys // self.space.entities
        return Assignments(query, {variable: keys - query * self.space.entities})

    def _keys(self, table: Assignments, variable: Variable) -> Ints:
        return table.query * self.space.entities + table.columns[variable]

    def _start_step(self, variable: Variable) -> None:
        """Note the variable for error messages, and raise if the time is up."""
        self.budget.doing = f"{self.which}, the atoms of {variable}"
        self.budget.spend(0)

    def _spend_rows(self, rows: int) -> None:
        if rows > self.limit:
            raise QueryTooLargeError(
                f"{self.budget.doing}: an intermediate table would have {rows:,} rows, over {self.limit:,}"
            )
        self.budget.spend(rows)
