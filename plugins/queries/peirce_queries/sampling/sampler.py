"""Samples queries with exact answers: walks propose groundings, and those that pass every check are kept.

Every query has an answer and no vacuous part on the graph of its split:

* dropping a negated atom gives more answers, dropping a branch of a disjunction fewer;
* no atom is repeated, and none is implied by the others of its conjunction up to renaming existential variables;
* a query of the valid or test split has an answer that the split before it lacks;
* a hard query of these has an answer that needs all of its links, see `TypeSampler`;
* it has at most `max_answers` answers, and no other query of its set is the same up to renaming.

The queries of a type come in blocks, each from a random generator of its own, so that whoever samples them, in whatever
order, gets the same; a `Collector` takes the blocks one after another and drops what an earlier one has.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from attrs import evolve, frozen
from rich.console import Console

from peirce.errors import TaskError
from peirce.progress import progress_bars
from peirce_queries.engine.answers import Answers, answers, answers_within
from peirce_queries.engine.missing import Links, Missing
from peirce_queries.engine.template import Groundings, Slot, Template
from peirce_queries.graphs.graph import SPLITS, Bools, Graph, Index, Ints, Split
from peirce_queries.languages.language import Query
from peirce_queries.languages.types import QueryType
from peirce_queries.sampling.lookup import Lookup
from peirce_queries.sampling.symmetry import canonical, redundant, repetitions, symmetries
from peirce_queries.sampling.walks import LIMIT, TOGETHER, Walker

MAX_ANSWERS = 100
MAX_HARD = 1_000_000
BLOCK = 8192
"""Queries of a block. Like the sizes of batches, it is part of what a seed means."""
BATCHES = (512, 4096)
"""Proposals of a block's first batch, or a few more, and of its largest; each is twice the one before."""
WASTEFUL = 4
"""How many times as large the largest is where branches share a negation: of those proposals few are kept."""
SHARE = 1 / 5
"""The share of hard queries that one relation or one entity may stand in."""
BEGUN = 1 / 4
"""The share of the hard queries that are asked for which is taken before that holds."""
PATIENCE = 24 * 1024
"""Proposals without a new query after which a type is given up as exhausted."""
RARE = 16
"""How many times as many are made where queries are to be hard, in a batch and before a type is given up."""


@frozen(eq=False)
class QuerySet:
    """Sampled queries of one type.

    Args:
        type, template: the query type, and its abstract query, prepared.
        split: the split that they were sampled from.
        groundings: the queries.
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

    def select(self, rows: Ints) -> QuerySet:
        """Some of the queries, in the order of `rows`."""
        answers = {split: found.select(rows) for split, found in self.answers.items()}
        return evolve(self, groundings=self.groundings[rows], answers=answers)

    @classmethod
    def concatenate(cls, sets: Sequence[QuerySet]) -> QuerySet:
        """The queries of several sets of one type and split, one set after another."""
        answers = {split: Answers.concatenate([s.answers[split] for s in sets]) for split in sets[0].answers}
        return evolve(
            sets[0], groundings=Groundings.concatenate([s.groundings for s in sets]), answers=answers
        )


def sample(
    types: Sequence[QueryType],
    graph: Graph,
    split: Split,
    count: int,
    seed: int,
    max_answers: int | None = None,
    console: Console | None = None,
    *,
    leave_out: bool = False,
    hard: bool = False,
) -> tuple[QuerySet, ...]:
    """Sample `count` queries of each type from the graph of a split; fewer where the graph has no more.

    The queries of a type depend on the graph, the split, the seed and `max_answers`, not on the other types; a larger
    count continues a smaller one.

    Args:
        types, graph: the query types, and the graph.
        split: `train` for training; `valid` and `test` queries have an answer that the split before lacks.
        count: how many queries of each type.
        seed: the seed.
        max_answers: how many answers a query may have on the graph of the split; `most_answers` if None.
        console: where a progress bar is shown; nowhere when None.
        leave_out: whether a type without a single query is left out, and no error.
        hard: whether each query of `valid` and `test` has a hard answer, see `TypeSampler`.

    Raises:
        TaskError: not one query of a type was found, or of any type.
    """
    check_split(graph, split)
    max_answers = most_answers(split, hard=hard) if max_answers is None else max_answers
    lookup = Lookup.of(graph)
    sets: list[QuerySet] = []
    with progress_bars(console) as progress:
        bar = progress.add_task(f"sampling {split} queries", total=count * len(types), shown="")
        for kind in types:
            progress.update(bar, shown=kind.name)
            sampler = TypeSampler(kind, lookup, split, seed, max_answers, hard=hard)
            collector, kept = Collector(sampler.template, count, balanced=sampler.hard), list[QuerySet]()
            while not collector.complete:
                block = sampler.block(len(kept), collector.limit(len(kept)))
                kept.append(block.queries.select(collector.add(block)))
                progress.advance(bar, len(kept[-1]))
            progress.advance(bar, count - len(collector))
            if len(collector):
                sets.append(QuerySet.concatenate(kept))
            elif not leave_out or (kind is types[-1] and not sets):
                raise _no_queries_error(kind, graph, split, max_answers, hard=sampler.hard)
    return tuple(sets)


def check_split(graph: Graph, split: Split) -> None:
    """A `TaskError` where a split has no triple, without which no query of it can be drawn."""
    if not len(graph.added[split]):
        others = [name for name in SPLITS if len(graph.added[name])]
        raise TaskError(
            f"the {split} split of {graph.name!r} adds no triples, and each of its queries needs one; sample another "
            f"split ({', '.join(others) or 'none has any'}), or give a folder whose {split} file has triples"
        )


def most_answers(split: Split, *, hard: bool) -> int:
    """How many answers a query may have unless told otherwise; as published, hard ones of any number."""
    return MAX_HARD if hard and split != "train" else MAX_ANSWERS


def missing_links(sets: Sequence[QuerySet], graph: Graph, split: Split) -> tuple[Missing, ...]:
    """The links that the inferred answers of each set of a split, `valid` or `test`, miss."""
    before = SPLITS[SPLITS.index(split) - 1]
    links = Links(graph.index(before), graph.index(split))
    return tuple(
        links.missing(
            queries.template,
            queries.groundings,
            queries.answers[split].minus(queries.answers[before], graph.entities),
        )
        for queries in sets
    )


def _no_queries_error(
    kind: QueryType, graph: Graph, split: Split, max_answers: int, *, hard: bool
) -> TaskError:
    """Why there are no queries of a type."""
    what, instead = f"{kind.name} query with 1 to {max_answers} answers", "raise max_answers, or leave"
    if hard:
        what, instead = f"{kind.name} query with an answer that needs all of its links", "leave"
    return TaskError(
        f"no {what} was found on the {split} graph of {graph.name}; {instead} the type out: name others, or set "
        "absent=leave_out"
    )


@frozen(eq=False)
class Block:
    """Queries of one type, none a renaming of another.

    last: whether no later block can have more; seconds: the CPU time that they took.
    """

    queries: QuerySet
    last: bool
    seconds: float


class Collector:
    """Takes the blocks of a type in order and says what is new in each, up to a count of queries.

    Balanced, it leaves out what would make a relation or an entity stand in more than `SHARE` of the queries, once it
    has `BEGUN` of them, as the benchmarks "+H" do.
    """

    def __init__(self, template: Template, count: int, *, balanced: bool = False) -> None:
        self._renamings = symmetries(template)
        self._seen: set[bytes] = set()
        self._count, self._model_inputs, self._balanced = count, 0, balanced
        self._uses = Counter[tuple[str, int]]()
        self.complete = count <= 0

    def __len__(self) -> int:
        return self._model_inputs

    def limit(self, number: int) -> int:
        """How many queries of a block, by its number, are worth sampling."""
        if self._balanced:
            return min(BLOCK, 2 * self._count)
        return BLOCK if number else min(BLOCK, self._count)

    def add(self, block: Block) -> Ints:
        """The rows of the block's queries that are taken and that no earlier block had: int64, ascending."""
        groundings = block.queries.groundings
        most = None if self._balanced else self._count
        rows = _new_rows(canonical(groundings, self._renamings), self._seen, most)
        if self._balanced:
            rows = np.array([row for row in rows.tolist() if self._fits(groundings, row)], np.int64)
        else:
            self._model_inputs += len(rows)
        self.complete = len(self) >= self._count or block.last or not len(rows)
        return rows

    def _fits(self, groundings: Groundings, row: int) -> bool:
        """Whether a query leaves the balance as it should be; then it is counted."""
        named = {("r", r) for r in groundings.relations[row].tolist()}
        named |= {("s", s) for s in groundings.constants[row].tolist()}
        most = (
            max(1, SHARE * (self._model_inputs + 1))
            if self._model_inputs >= BEGUN * self._count
            else self._count
        )
        if self._model_inputs >= self._count or any(self._uses[name] + 1 > most for name in named):
            return False
        self._uses.update(named)
        self._model_inputs += 1
        return True


class TypeSampler:
    """Finds queries of one type in a graph; see `sample` for what it is given.

    With `hard`, a query of `valid` or `test` has an answer that needs all of its links, in each branch of a union, as
    `engine.missing.Links` says; on `train` nothing is missing, so all are taken.
    """

    def __init__(
        self,
        kind: QueryType,
        lookup: Lookup,
        split: Split,
        seed: int,
        max_answers: int,
        *,
        hard: bool = False,
    ) -> None:
        self.kind, self.lookup, self.split, self.max_answers = kind, lookup, split, max_answers
        self.level = SPLITS.index(split)
        self.hard = hard and self.level > 0
        self._rare = RARE if self.hard else 1
        self.template = Template.of(kind.query)
        self._seed = [seed, zlib.crc32(kind.name.encode()), self.level]
        self._walker = Walker(self.template, lookup, self.level, self.hard)
        self._renamings = symmetries(self.template)
        self._repetitions = repetitions(self.template)

    def block(self, number: int, limit: int = BLOCK) -> Block:
        """A block of at most `BLOCK` queries, or its first `limit`."""
        since, limit, stale = time.thread_time(), min(limit, BLOCK), 0
        seen: set[bytes] = set()
        found: list[QuerySet] = []
        for proposals, tried in self._proposals(number):
            # renamings first: what was proposed before, kept or not, is not looked at again
            proposals = proposals[_new_rows(canonical(proposals, self._renamings), seen)]
            found.append(self._accept(proposals[~redundant(proposals, self._repetitions)]))
            stale = 0 if len(found[-1]) else stale + tried
            if stale >= self._rare * PATIENCE or sum(map(len, found)) >= limit:
                break
        queries = QuerySet.concatenate(found)
        queries = queries.select(np.arange(min(limit, len(queries))))
        last = self._all_groundings is not None and (number + 1) * BLOCK >= len(self._all_groundings)
        return Block(queries, last or stale >= self._rare * PATIENCE, time.thread_time() - since)

    @cached_property
    def _all_groundings(self) -> Groundings | None:
        """All groundings in random order, where they can be listed."""
        every = self._walker.every()
        return None if every is None else every[np.random.default_rng(self._seed).permutation(len(every))]

    def _proposals(self, number: int) -> Iterator[tuple[Groundings, int]]:
        """The batches of a block, each with the number of walks that were tried."""
        if self._all_groundings is not None:
            yield self._all_groundings[number * BLOCK : (number + 1) * BLOCK], BLOCK
            return
        random = np.random.default_rng([*self._seed, number])
        size, largest = (self._rare * size for size in BATCHES)
        largest *= WASTEFUL if self._walker.shared_negation_rate == max(TOGETHER) else 1
        while True:
            yield self._walker.propose(size, random), size
            size = min(2 * size, largest)

    def _accept(self, proposals: Groundings) -> QuerySet:
        """The proposals that meet the conditions on answers, with their answers.

        Each condition asks the engine about what met those before it: most proposals fail an early one.
        """
        template, current = self.template, self.split
        found: dict[Split, Answers] = {}

        def keep(met: Bools) -> None:
            nonlocal proposals
            rows = np.flatnonzero(met)
            proposals = proposals[rows]
            found.update({split: each.select(rows) for split, each in found.items()})

        def ask(split: Split, conjunctions: Iterable[Sequence[Slot]] = template.conjunctions) -> Answers:
            variant = evolve(template, conjunctions=tuple(map(tuple, conjunctions)))
            index = self.lookup.indexes[SPLITS.index(split)]
            each, refused = answers_within(variant, proposals, index, LIMIT)
            if refused.any():
                keep(~refused)
                each = each.select(np.flatnonzero(~refused))
            return each

        if self.hard:
            keep(self._answered_by_added(proposals))
        found[current] = ask(current)
        keep((found[current].counts > 0) & (found[current].counts <= self.max_answers))
        if self.level:
            before = SPLITS[self.level - 1]
            found[before] = ask(before)
            keep(self._has_more_answers(found[current], found[before]))
        if self.hard:
            inferred = found[current].minus(found[before], self.lookup.entities)
            missing = self.lookup.links[self.level - 1].missing(template, proposals, inferred)
            keep(np.bincount(inferred.queries[missing.hard], minlength=len(proposals)) > 0)
        for negated in template.negated:
            wider = ask(
                current, [[slot for slot in slots if slot != negated] for slots in template.conjunctions]
            )
            keep(self._has_more_answers(wider, found[current]))
        if len(template.conjunctions) > 1:
            for branch in template.conjunctions:
                others = ask(current, [slots for slots in template.conjunctions if slots is not branch])
                keep(self._has_more_answers(found[current], others))
        for split in SPLITS:
            if split not in found:
                found[split] = ask(split)
        return QuerySet(self.kind, current, template, proposals, {split: found[split] for split in SPLITS})

    @cached_property
    def _added_index(self) -> Index:
        """The triples that the split adds."""
        triples = self.lookup.triples[self.lookup.size(self.level - 1) : self.lookup.size(self.level)]
        return Index.of(triples, self.lookup.entities, self.lookup.relations)

    def _answered_by_added(self, proposals: Groundings) -> Bools:
        """Which queries have an answer by triples alone that the split adds, as a hard one must: bool [n]."""
        positive = (tuple(slot for slot in slots if slot.positive) for slots in self.template.conjunctions)
        template = evolve(self.template, conjunctions=(next(positive),))
        return answers(template, proposals, self._added_index).counts > 0

    def _has_more_answers(self, wider: Answers, other: Answers) -> Bools:
        """Which queries have an answer that others lack: bool [n]."""
        return wider.minus(other, self.lookup.entities).counts > 0


def _new_rows(keys: Sequence[bytes], seen: set[bytes], most: int | None = None) -> Ints:
    """The rows whose key is not in `seen`, each once, until that has `most`; they are added."""
    rows = []
    for row, key in enumerate(keys):
        if key not in seen:
            if len(seen) == most:
                break
            seen.add(key)
            rows.append(row)
    return np.array(rows, np.int64)
