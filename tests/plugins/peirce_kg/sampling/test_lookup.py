"""The sampler's index: keys are found by hash, and each triple knows the smallest split that holds it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kgqa_reference import graphs
from peirce_kg.graphs.graph import SPLITS, Graph
from peirce_kg.sampling.lookup import ABSENT, Keys, Lookup


@given(st.sets(st.integers(0, 2**62), max_size=200), st.lists(st.integers(0, 2**62), max_size=20))
def test_keys_are_found_and_others_are_not(keys: set[int], others: list[int]) -> None:
    ordered = sorted(keys, key=lambda key: key % 7)
    found = Keys.of(np.array(ordered, np.int64)).find(np.array([*ordered, *others], np.int64))
    assert found.tolist() == [*range(len(ordered)), *(ordered.index(k) if k in keys else -1 for k in others)]


@given(graphs())
def test_levels_are_the_splits_that_add_triples(graph: Graph) -> None:
    lookup = Lookup.of(graph)
    head, relation, tail = (a.ravel() for a in np.indices((graph.entities, graph.relations, graph.entities)))
    there = [graph.index(split).contains(relation, head, tail) for split in SPLITS]
    assert lookup.level(relation, head, tail).tolist() == (ABSENT - np.sum(there, axis=0)).tolist()
    assert [lookup.size(level) for level in range(ABSENT)] == [len(graph.index(split)) for split in SPLITS]


@given(graphs())
def test_a_worker_makes_the_indexes_of_what_it_was_sent(graph: Graph) -> None:
    sent = Lookup.of(graph)
    made = Lookup(graph.entities, graph.relations, sent.triples, sent.levels)
    for split, index in zip(SPLITS, made.indexes, strict=True):
        assert np.array_equal(index.triples(), graph.index(split).triples())
