"""The exact engine: every answer of any existential first-order query, by the formula's own semantics.

An existential variable is quantified outermost over the whole formula and ranges over all entities; distinct variables
may coincide; a negated atom is false of the pair. So `r1(s1,e1) & !r2(e1,f)` asks for some e1 with r1(s1,e1) for which
r2(e1,f) does not hold, which is not the complement of a projected set.

Existentials commute with disjunction, so each conjunction of the disjunctive normal form is answered by itself: a
variable at a time is joined out of the tables that hold it. A whole batch of groundings of one abstract query is
answered at once; the query's number is one more column of every table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from attrs import evolve, field, frozen
from peirce.errors import TaskError

from peirce_plugins.tasks.kgqa.graph import Bools, Graph, Index, Ints
from peirce_plugins.tasks.kgqa.language import FREE, Constant, Query, Term, Variable

LIMIT = 20_000_000
"""Rows that one intermediate table may have; 8 bytes a column each."""


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
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        """One after another."""
        counts = np.concatenate([np.zeros(1, np.int64), *(part.counts for part in parts)])
        return cls(
            np.cumsum(counts), np.concatenate([np.empty(0, np.int64), *(part.entities for part in parts)])
        )

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
        return Answers(
            np.concatenate([[0], np.cumsum(counts)]), self.entities[spans(self.offsets[rows], counts)]
        )


def resolve(query: Query, graph: Graph) -> tuple[Template, Groundings]:
    """A grounded query as a template with one grounding.

    Raises:
        TaskError: a relation or an entity is not in the graph; the nearest names are listed.
    """
    template = Template.of(query)
    relations = [[graph.relation(name) for name in template.relations]]
    constants = [[graph.entity(name) for name in template.constants]]
    return template, Groundings(np.array(relations, np.int64), np.array(constants, np.int64).reshape(1, -1))


def answer(query: Query, graph: Graph, index: Index) -> Ints:
    """The answers of one grounded query, sorted ids.

    Raises:
        TaskError: a name is not in the graph. QueryTooLargeError: it would need too much memory.
    """
    return answers(*resolve(query, graph), index)[0]


def answers(template: Template, groundings: Groundings, index: Index, limit: int = LIMIT) -> Answers:
    """The answers of many groundings of one template.

    Args:
        template: the abstract query.
        groundings: the ids for its slots.
        index: the graph.
        limit: rows that a table may have; a batch is split before it is refused.

    Raises:
        QueryTooLargeError: one query alone needs more.
    """
    count = len(groundings)
    try:
        if count * index.entities >= 2**62:
            raise QueryTooLargeError("too many queries at once")
        found = [_Conjunction(slots, groundings, index, limit).answers() for slots in template.conjunctions]
        return Answers.of(np.unique(np.concatenate(found)), count, index.entities)
    except QueryTooLargeError as error:
        if count <= 1:
            raise QueryTooLargeError(
                f"{template.query}: {error}; a query of this shape is too large for this graph"
            ) from None
        half = count // 2
        parts = (groundings[:half], groundings[half:])
        return Answers.joined([answers(template, part, index, limit) for part in parts])


@frozen(eq=False)
class _Table:
    """Rows of one value per variable: query: int64 [n]; columns: variable -> int64 [n]. Rows are distinct."""

    query: Ints
    columns: Mapping[Variable, Ints] = field(factory=dict)

    def __len__(self) -> int:
        return len(self.query)

    def rows(self, rows: Ints | Bools) -> _Table:
        return _Table(self.query[rows], {v: column[rows] for v, column in self.columns.items()})


class _Conjunction:
    """One conjunction for a batch of groundings."""

    def __init__(self, slots: tuple[Slot, ...], groundings: Groundings, index: Index, limit: int) -> None:
        self.groundings, self.index, self.limit = groundings, index, limit
        self.positive = [slot for slot in slots if slot.positive]
        self.filters = [slot for slot in slots if not slot.positive]
        self.tables: list[_Table] = []

    def answers(self) -> Ints:
        """Sorted distinct keys, query * entities + answer."""
        self._bind()
        while remaining := {v for table in self.tables for v in table.columns} - {FREE} | self._unbound():
            self._eliminate(min(remaining, key=lambda v: (self._cost(v), v.name)))
        return self._answers()

    def _bind(self) -> None:
        """Turn the positive atoms into tables, those with a constant first, so that the others start small."""
        waiting = []
        for slot in self.positive:
            if not slot.variables:
                self.filters.append(slot)
            elif isinstance(slot.head, Variable) and isinstance(slot.tail, Variable):
                waiting.append(slot)
            else:
                self._add(self._from_constant(slot))
        while waiting:
            slot = min(waiting, key=self._seeds)
            waiting.remove(slot)
            if slot.head == slot.tail and self._domain(slot.head) is not None:
                self.filters.append(slot)
                continue
            table = self._pairs(slot)
            parallel = [other for other in waiting if other.variables == slot.variables]
            self.filters += parallel
            waiting = [other for other in waiting if other not in parallel]
            self._add(table)

    def _add(self, table: _Table) -> None:
        """Keep a table; tables over the same single variable become one."""
        for other in self.tables:
            if len(table.columns) == 1 and other.columns.keys() == table.columns.keys():
                self.tables.remove(other)
                table = self._join(other, table)
                break
        self.tables.append(self._filtered(table))

    def _seeds(self, slot: Slot) -> float:
        domains = [self._domain(end) for end in (slot.head, slot.tail)]
        return min(np.inf if domain is None else len(domain) for domain in domains)

    def _domain(self, variable: int | Variable) -> _Table | None:
        """The smallest table that binds a variable."""
        holding = [table for table in self.tables if variable in table.columns]
        return min(holding, key=len) if holding else None

    def _from_constant(self, slot: Slot) -> _Table:
        heads = not isinstance(slot.head, Variable)
        constant, variable = (slot.head, slot.tail) if heads else (slot.tail, slot.head)
        assert isinstance(variable, Variable)
        queries = np.arange(len(self.groundings))
        entity = self.groundings.constants[:, constant]  # type: ignore[index]
        row, other = self._expand(slot, queries, entity, heads=heads)
        return _Table(row, {variable: other})

    def _pairs(self, slot: Slot) -> _Table:
        """The pairs of a relation between two variables, from the end that fewer values are known of."""
        head, tail = slot.head, slot.tail
        assert isinstance(head, Variable)
        assert isinstance(tail, Variable)
        ends = [(len(d), v) for v in (head, tail) if (d := self._domain(v)) is not None]
        if not ends:
            start, stop = self.index.of_relation(self.groundings.relations[:, slot.relation])
            self._check((stop - start).sum())
            heads, _, tails = self.index.triples(spans(start, stop - start))
            table = _Table(np.repeat(np.arange(len(start)), stop - start), {head: heads})
            if head == tail:
                return table.rows(heads == tails)
            return evolve(table, columns={head: heads, tail: tails})
        known = min(ends, key=lambda end: end[0])[1]
        domain = self._domain(known)
        assert domain is not None
        seeds = self._project(domain, [known])
        row, other = self._expand(slot, seeds.query, seeds.columns[known], heads=known == head)
        return _Table(
            seeds.query[row], {known: seeds.columns[known][row], tail if known == head else head: other}
        )

    def _expand(self, slot: Slot, query: Ints, entity: Ints, *, heads: bool) -> tuple[Ints, Ints]:
        """Follow the slot's relation from entities: the row that each result comes from, and the result."""
        relation = self.groundings.relations[query, slot.relation]
        start, stop = self.index.ranges(relation, entity, heads=heads)
        counts = stop - start
        self._check(counts.sum())
        return np.repeat(np.arange(len(query)), counts), self.index.others(spans(start, counts), heads=heads)

    def _unbound(self) -> set[Variable]:
        """Existential variables that only filters mention."""
        bound = {v for table in self.tables for v in table.columns}
        return {v for slot in self.filters for v in slot.variables} - bound - {FREE}

    def _cost(self, variable: Variable) -> float:
        """An upper bound, within the tables, of the rows that joining a variable out goes through."""
        holding = [table for table in self.tables if variable in table.columns]
        if not holding:
            return np.inf
        others = {v for slot in self.filters if variable in slot.variables for v in slot.variables}
        reached = {v for table in holding for v in table.columns}
        loose = len(others - reached)
        return float(sum(len(table) for table in holding)) * (1 if len(holding) == 1 else 2) * 1000.0**loose

    def _eliminate(self, variable: Variable) -> None:
        """Join the tables that hold an existential variable, apply its filters, and project it out."""
        table = self._gather(variable)
        while loose := [
            v for s in self.filters if variable in s.variables for v in s.variables if v not in table.columns
        ]:
            table = self._filtered(self._join(table, self._gather(loose[0])))
        kept = [v for v in table.columns if v != variable]
        self._add(self._project(table, kept))

    def _gather(self, variable: Variable) -> _Table:
        """Take the tables that hold a variable, joined; every entity where no table does."""
        holding = sorted((table for table in self.tables if variable in table.columns), key=len)
        if not holding:
            count, entities = len(self.groundings), self.index.entities
            self._check(count * entities)
            query = np.repeat(np.arange(count), entities)
            return self._filtered(_Table(query, {variable: np.tile(np.arange(entities), count)}))
        self.tables = [table for table in self.tables if not any(table is other for other in holding)]
        gathered = holding.pop(0)
        while holding:
            # the table that shares most columns grows the result least
            best = max(holding, key=lambda table: len(table.columns.keys() & gathered.columns.keys()))
            holding = [table for table in holding if table is not best]
            gathered = self._filtered(self._join(gathered, best))
        return self._filtered(gathered)

    def _filtered(self, table: _Table) -> _Table:
        """Apply the filters whose variables a table has, each once."""
        for slot in list(self.filters):
            if slot.variables and slot.variables <= table.columns.keys():
                self.filters.remove(slot)
                table = table.rows(self._holds(slot, table))
        return table

    def _holds(self, slot: Slot, table: _Table) -> Bools:
        relation = self.groundings.relations[table.query, slot.relation]
        head, tail = (
            table.columns[end] if isinstance(end, Variable) else self.groundings.constants[table.query, end]
            for end in (slot.head, slot.tail)
        )
        return self.index.contains(relation, head, tail) == slot.positive

    def _answers(self) -> Ints:
        entities = self.index.entities
        alive = np.ones(len(self.groundings), dtype=bool)
        everything = _Table(np.arange(len(self.groundings)))
        for slot in [slot for slot in self.filters if not slot.variables]:
            alive &= self._holds(slot, everything)
        for table in [table for table in self.tables if not table.columns]:
            alive &= np.bincount(table.query, minlength=len(alive)) > 0
        self.tables = [table for table in self.tables if table.columns]
        if not self.tables and not any(slot.variables for slot in self.filters):
            query = np.flatnonzero(alive)
            self._check(len(query) * entities)
            return (query[:, None] * entities + np.arange(entities)).ravel()
        table = self._gather(FREE)
        keys = table.query * entities + table.columns[FREE]
        return np.sort(keys[alive[table.query]])

    def _project(self, table: _Table, kept: Sequence[Variable]) -> _Table:
        """The distinct rows of some columns."""
        if len(kept) == len(table.columns):
            return table
        code = self._codes([table], kept)[0]
        _, first = np.unique(code, return_index=True)
        return _Table(table.query[first], {v: table.columns[v][first] for v in kept})

    def _join(self, left: _Table, right: _Table) -> _Table:
        """The natural join: equal query and equal shared columns."""
        if len(left) < len(right):
            left, right = right, left
        shared = [v for v in left.columns if v in right.columns]
        left_code, right_code = self._codes([left, right], shared)
        order = np.argsort(right_code, kind="stable")
        right_code = right_code[order]
        start = np.searchsorted(right_code, left_code)
        counts = np.searchsorted(right_code, left_code, side="right") - start
        self._check(counts.sum())
        from_left = np.repeat(np.arange(len(left)), counts)
        from_right = order[spans(start, counts)]
        joined = left.rows(from_left)
        extra = {v: column[from_right] for v, column in right.columns.items() if v not in joined.columns}
        return _Table(joined.query, {**joined.columns, **extra})

    def _codes(self, tables: Sequence[_Table], columns: Sequence[Variable]) -> list[Ints]:
        """One integer per row, equal where query and columns are; comparable between the tables."""
        cuts = np.cumsum([len(table) for table in tables])[:-1]
        code = np.concatenate([table.query for table in tables])
        size = len(self.groundings)
        for column in columns:
            if size * self.index.entities >= 2**62:
                distinct, code = np.unique(code, return_inverse=True)
                size = len(distinct)
            code = code * self.index.entities + np.concatenate([table.columns[column] for table in tables])
            size *= self.index.entities
        return list(np.split(code, cuts))

    def _check(self, rows: int | np.integer) -> None:
        if rows > self.limit:
            raise QueryTooLargeError(
                f"an intermediate table would have {int(rows):,} rows, over {self.limit:,}"
            )


def spans(start: Ints, counts: Ints) -> Ints:
    """The numbers start[i], ..., start[i] + counts[i] - 1 for each i, one after another."""
    total = int(counts.sum())
    before = np.cumsum(counts) - counts
    return np.arange(total) - np.repeat(before - start, counts)
