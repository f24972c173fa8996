"""What the sampler looks up: every random triple and neighbour is one of the graph of its level."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from kgqa_reference import graphs
from peirce_kg.graphs.graph import SPLITS, Graph
from peirce_kg.sampling.lookup import Lookup


@given(graphs())
def test_what_is_picked_is_in_the_graph_of_its_level(graph: Graph) -> None:
    lookup, random = Lookup.of(graph), np.random.default_rng(0)
    relation, entity = (a.ravel() for a in np.indices((graph.relations, graph.entities)))
    head, tail = (a.ravel() for a in np.indices((graph.entities, graph.entities)))
    for level, split in enumerate(SPLITS):
        index = graph.index(split)
        assert lookup.size(level) == len(index)
        held = set(zip(*(column.tolist() for column in index.triples()), strict=True))
        pairs = list(zip(relation.tolist(), entity.tolist(), strict=True))
        for heads in (True, False):
            other, there = lookup.neighbour(relation, entity, level, random, heads=heads)
            degree = [len({t for t in held if t[1] == r and t[0 if heads else 2] == e}) for r, e in pairs]
            assert lookup.degree(relation, entity, level, heads=heads).tolist() == degree
            assert there.tolist() == [count > 0 for count in degree]
            ends = (entity, other) if heads else (other, entity)
            assert index.contains(relation, *ends)[there].all()
        number, there = lookup.of_pair.pick(lookup.pair(head, tail), level, random)
        assert (lookup.triples[number][there][:, [0, 2]] == np.stack([head, tail], 1)[there]).all()
        joined = {(h, t) for h, _, t in zip(*index.triples(), strict=True)}
        assert {pair for pair, has in zip(zip(head, tail, strict=True), there, strict=True) if has} == joined


@given(graphs())
def test_a_worker_makes_the_indexes_of_what_it_was_sent(graph: Graph) -> None:
    sent = Lookup.of(graph)
    made = Lookup(graph.entities, graph.relations, sent.triples, sent.levels)
    for split, index in zip(SPLITS, made.indexes, strict=True):
        assert np.array_equal(index.triples(), graph.index(split).triples())
