"""The pass that the sampler's checks use, held against the exact engine in every world."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kgqa_reference import graphs, queries
from kgqa_templates import only, without
from peirce.errors import TaskError
from peirce_kg.engine.answers import Answers, answers, to_ids
from peirce_kg.engine.template import Groundings, Template
from peirce_kg.graphs.graph import SPLITS, Graph, from_ids
from peirce_kg.queries.language import Query, parse
from peirce_kg.queries.types import QueryType, load_types
from peirce_kg.sampling import worlds
from peirce_kg.sampling.lookup import ABSENT, Keys, Lookup
from peirce_kg.sampling.worlds import Worlds, solve

TYPES = load_types()


def _agree(template: Template, groundings: Groundings, graph: Graph, own: int) -> None:
    every = Worlds.of(template, own)
    found = solve(every, groundings, Lookup.of(graph), 10**9)
    assert not found.refused.any()
    index = graph.index(SPLITS[own])
    expected = [
        *(
            (bit, answers(template, groundings, graph.index(s)))
            for s, bit in zip(SPLITS, every.splits, strict=True)
        ),
        *(
            (bit, answers(without(template, slot), groundings, index))
            for slot, bit in zip(template.negated, every.without, strict=True)
        ),
        *((bit, answers(only(template, [i]), groundings, index)) for i, bit in enumerate(every.branches)),
    ]
    for bit, exact in expected:
        there = found.worlds & bit != 0
        keys = np.sort(found.query[there] * graph.entities + found.entity[there])
        ours = Answers.of(keys, len(groundings), graph.entities)
        assert ours.offsets.tolist() == exact.offsets.tolist()
        assert ours.entities.tolist() == exact.entities.tolist()


@given(graphs(), queries(), st.integers(0, 2))
def test_any_query_in_every_world(graph: Graph, query: Query, own: int) -> None:
    _agree(*to_ids(query, graph), graph, own)


@given(graphs(), st.sampled_from(list(TYPES.values())), st.integers(0, 2), st.integers(0, 2**32))
def test_batches_of_every_type_in_every_world(graph: Graph, kind: QueryType, own: int, seed: int) -> None:
    template, random = Template.of(kind.query), np.random.default_rng(seed)
    groundings = Groundings(
        random.integers(graph.relations, size=(9, len(template.relations))),
        random.integers(graph.entities, size=(9, len(template.constants))),
    )
    _agree(template, groundings, graph, own)


@pytest.mark.parametrize("name", ["3c", "upi", "pni", "2pu"])
def test_a_batch_is_cut_where_tables_grow(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "AT_ONCE", 3)
    template = Template.of(TYPES[name].query)
    random = np.random.default_rng(0)
    triples = {split: random.integers((6, 3, 6), size=(60, 3), dtype=np.int32) for split in SPLITS}
    graph = from_ids("g", [f"a{i}" for i in range(6)], [f"p{i}" for i in range(3)], triples)
    groundings = Groundings(
        random.integers(3, size=(50, len(template.relations))),
        random.integers(6, size=(50, len(template.constants))),
    )
    _agree(template, groundings, graph, 1)
    monkeypatch.setattr(worlds, "LIMIT", 3)
    assert solve(Worlds.of(template, 1), groundings, Lookup.of(graph), 10**9).refused.any()


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


def test_too_many_parts_are_refused() -> None:
    formula = "&".join(["(r1(s1,f))", *(f"(!(r{i}(s{i},f)))" for i in range(2, 65))])
    with pytest.raises(TaskError, match="63 negated atoms and 1 branches are too many"):
        Worlds.of(Template.of(parse(formula)), 0)
