"""How many links an inferred answer misses: answers that need one link are not as hard as their query's type looks.

A derivation of an answer is a conjunction of the query's disjunctive normal form with values of its variables that make
it true on the graph of the split. A link of it is missing if the triple of a positive atom is not on the graph before.
What counts is the derivation with the fewest. It is found by the exact engine alone: an atom is asked of the graph
before, or of either graph, by its relation's number in an index that has the relations of both.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations

import numpy as np
from attrs import evolve, frozen

from peirce_queries.engine.answers import Answers, answers
from peirce_queries.engine.template import Groundings, Slot, Template
from peirce_queries.graphs.index import Bools, Index, Ints, spans


@frozen(eq=False)
class Missing:
    """What the inferred answers of queries miss.

    inferred: the answers on the graph of the split that the graph before it lacks, m in all; links: int64 [m], the
    least number of missing links over an answer's derivations, 1 or more; hard: bool [m], see `Links`.
    """

    inferred: Answers
    links: Ints
    hard: Bools

    def select(self, rows: Ints) -> Missing:
        """Those of some of the queries, in the order of `rows`."""
        places = spans(self.inferred.offsets[rows], self.inferred.counts[rows])
        return Missing(self.inferred.select(rows), self.links[places], self.hard[places])


@frozen(eq=False)
class Links:
    """Counts missing links.

    An answer is hard if every conjunction of the query gives it, and does so by missing links alone. A union is hard
    for both of its branches then, as in the benchmarks "+H" ("Is complex query answering really complex?", Gregucci et
    al., 2025); the other answers of a union need one branch.

    Args:
        before: the graph that is known.
        whole: the graph that is asked, which has more.
    """

    before: Index
    whole: Index

    @cached_property
    def _joint_index(self) -> Index:
        """One index of both graphs: relation r is that of the whole graph, r + R that of the graph before."""
        parts = [np.stack(index.triples(), 1) for index in (self.whole, self.before)]
        parts[1][:, 1] += self.whole.relations
        triples = np.concatenate(parts).astype(np.int32)
        return Index.of(triples, self.whole.entities, 2 * self.whole.relations)

    def missing(self, template: Template, groundings: Groundings, inferred: Answers) -> Missing:
        """What the inferred answers of groundings of a template miss; a `QueryTooLargeError` as `answers` says."""
        links = np.full(len(inferred.entities), np.iinfo(np.int64).max)
        hard = np.ones(len(links), dtype=bool)
        for conjunction in template.conjunctions:
            least = self._fewest_missing(template, conjunction, groundings, inferred)
            given = least > 0
            links[given] = np.minimum(links[given], least[given])
            hard &= least == sum(slot.positive for slot in conjunction)
        return Missing(inferred, links, hard)

    def _fewest_missing(
        self, template: Template, conjunction: tuple[Slot, ...], groundings: Groundings, inferred: Answers
    ) -> Ints:
        """The fewest missing links of each answer by one conjunction, int64 [n]; 0 if it does not give the answer."""
        entities, keys = self.whole.entities, inferred.keys(self.whole.entities)
        # each atom has a relation of its own
        slots = tuple(evolve(slot, relation=place) for place, slot in enumerate(conjunction))
        variant = evolve(template, relations=tuple(map(str, range(len(slots)))), conjunctions=(slots,))
        relations = groundings.relations[:, [slot.relation for slot in conjunction]]
        positive = [place for place, slot in enumerate(slots) if slot.positive]

        def given(waiting: Ints, known: tuple[int, ...]) -> Ints:
            """Those of the waiting answers that have a derivation whose `known` atoms hold before."""
            rows = np.unique(keys[waiting] // entities)
            numbers = relations[rows]
            numbers[:, list(known)] += self.whole.relations
            found = answers(variant, Groundings(numbers, groundings.constants[rows]), self._joint_index)
            return waiting[np.isin(keys[waiting], rows[found.queries] * entities + found.entities)]

        least = np.zeros(len(keys), np.int64)
        waiting = given(np.arange(len(keys)), ())
        least[waiting] = len(positive)
        for missing in range(1, len(positive)):
            for known in combinations(positive, len(positive) - missing):
                if not len(waiting):
                    return least
                found = given(waiting, known)
                least[found] = missing
                waiting = np.setdiff1d(waiting, found, assume_unique=True)
        return least
