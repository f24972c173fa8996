from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kgqa_reference import brute_force, graphs, queries

from peirce.errors import TaskError
from peirce_queries.engine.answers import answer, answers, answers_within, pair_answers, to_ids
from peirce_queries.engine.assignments import CELLS
from peirce_queries.engine.budget import QueryTooLargeError
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.graphs.graph import SPLITS, Graph, Split, from_ids, from_names
from peirce_queries.graphs.index import Index
from peirce_queries.languages.language import (
    FIRST,
    FREE,
    SECOND,
    Constant,
    Query,
    Variable,
    parse,
    replace_terms,
)
from peirce_queries.languages.types import load_types

TYPES = load_types()


def loose(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


@loose(200)
@given(graphs(), queries(), st.sampled_from(SPLITS))
def test_random_formulas_equal_brute_force(graph: Graph, query: Query, split: Split) -> None:
    expected = brute_force(query, graph, split)
    assert answer(query, graph, graph.index(split)).tolist() == expected
    template, grounding = to_ids(query, graph)
    entity = np.arange(graph.entities)
    alone = evolve(grounding[np.zeros(graph.entities, np.int64)], free=entity)
    found = answers(template, alone, graph.index(split))
    assert found.queries.tolist() == found.entities.tolist() == expected


@loose(100)
@given(graphs(entities=4), queries(entities=4))
def test_pairs_equal_brute_force(graph: Graph, query: Query) -> None:
    pair = Query(replace_terms(query.formula, {FREE: FIRST, Variable("e1"): SECOND}))
    assume(pair.pairs)
    assert str(parse(str(pair), pairs=True)) == str(pair)
    (found,) = pair_answers(*to_ids(pair, graph), graph.index("test"))
    expected = []
    for first, name in enumerate(graph.entity_names):
        second = Query(replace_terms(pair.formula, {FIRST: Constant(name), SECOND: FREE}))
        expected += [[first, other] for other in brute_force(second, graph, "test")]
    assert found.tolist() == expected


def test_more_pairs_than_the_limit_are_refused() -> None:
    graph = from_names("pairs", {"train": [(f"a{i}", "r", "b") for i in range(20)]})
    with pytest.raises(QueryTooLargeError, match="has more than 100 pairs; name more entities"):
        pair_answers(*to_ids(parse("r(f1,b)&r(f2,b)", pairs=True), graph), graph.index("test"), limit=100)


@pytest.mark.parametrize("name", TYPES)
@loose(8)
@given(graph=graphs(entities=4), seed=st.integers(0, 2**32))
def test_every_type_equals_brute_force(name: str, graph: Graph, seed: int) -> None:
    template, random = Template.of(TYPES[name].query), np.random.default_rng(seed)
    relations = random.integers(graph.relations, size=(3, len(template.relations)))
    constants = random.integers(graph.entities, size=(3, len(template.constants)))
    found = answers(template, Groundings(relations, constants), graph.index("test"))
    for row in range(3):
        names = [
            *(graph.relation_names[i] for i in relations[row]),
            *(graph.entity_names[i] for i in constants[row]),
        ]
        slots = (*template.relations, *template.constants)
        grounded = TYPES[name].query.ground(dict(zip(slots, names, strict=True)))
        assert found[row].tolist() == brute_force(grounded, graph, "test")


def test_a_graph_so_large_that_each_query_is_a_batch_answers_alike() -> None:
    random = np.random.default_rng(3)
    small = np.unique(np.stack([random.integers(0, n, 150) for n in (9, 3, 9)], axis=1), axis=0)
    places = np.sort(random.choice(CELLS + 9, 9, replace=False))
    large = np.stack([places[small[:, 0]], small[:, 1], places[small[:, 2]]], axis=1)
    one, other = (Index.of(t.astype(np.int32), n, 3) for t, n in ((small, 9), (large, CELLS + 9)))
    for name in ("2p", "3in", "up"):
        template = Template.of(TYPES[name].query)
        relations = random.integers(0, 3, (4, len(template.relations)))
        constants = random.integers(0, 9, (4, len(template.constants)))
        found = answers(template, Groundings(relations, constants), one)
        alike = answers(template, Groundings(relations, places[constants]), other)
        assert alike.offsets.tolist() == found.offsets.tolist()
        assert alike.entities.tolist() == places[found.entities].tolist()


@loose(60)
@given(graph=graphs(entities=4), data=st.data())
def test_branches_equal_brute_force(graph: Graph, data: st.DataObject) -> None:
    atoms = ["p0(a0,e1)", "p1(a1,e1)", "p0(e1,a2)", "!p1(a0,e1)", "p1(e1,e1)", "p0(e1,e2)", "p1(e2,f)"]
    ends = ["p0(e1,f)", "p1(f,e1) & p0(a0,f)", "!p0(e1,f)", "p0(e1,e2) & p1(e2,f) & !p1(e1,f)"]
    union = " | ".join(data.draw(st.lists(st.sampled_from(atoms), min_size=2, max_size=4)))
    query = parse(f"({union}) & {data.draw(st.sampled_from(ends))}")
    assert answer(query, graph, graph.index("test")).tolist() == brute_force(query, graph, "test")


@pytest.mark.parametrize(
    "text",
    [
        "r0(e1,e2) & r1(e2,e3) & r0(e3,e1) & r1(e3,f)",  # a cycle that f hangs on
        "r0(f,e1) & r1(e1,e2) & r0(e2,e3) & r1(e3,f)",  # a cycle of four through f
        "r0(e1,e2) & r1(e2,e3) & r0(e3,e4) & r1(e4,e1) & r0(e1,e3) & r1(f,e4)",  # a chord
        "!r0(e1,e2) & !r1(e2,f) & !r0(f,e1)",  # a cycle without a positive atom
        "r0(e1,e2) & !r1(e2,f) & !r0(f,e1) & !r1(e1,f)",  # one positive atom in a cycle
        "!r0(e1,f) & !r1(f,e1) & r0(a0,e1)",  # two negated atoms of one leaf
        "!r0(e1,f) & !r1(f,e1) & !r0(a0,e1)",  # of a leaf that nothing lists
        "!r0(e1,f) & r1(e1,e1)",  # of a leaf that loops
        "r0(e1,e2) & r1(e2,e1) & r0(f,f)",  # a part that f is not in
        "!r0(e1,e1) & !r1(a0,f)",  # parts of negated atoms
        "r0(e1,f) & !r0(e2,f) & r1(e3,e3) & !r1(f,f)",
    ],
)
def test_unusual_shapes_equal_brute_force(text: str) -> None:
    random = np.random.default_rng(len(text))
    for density in (0.1, 0.3, 0.6):
        every = np.array([(h, r, t) for h in range(5) for r in range(2) for t in range(5)], np.int32)
        held = every[random.random(len(every)) < density]
        names = [f"a{i}" for i in range(5)]
        graph = from_ids("g", names, ["r0", "r1"], {"train": held, "valid": held[:0], "test": held[:0]})
        query = parse(text)
        assert answer(query, graph, graph.index("train")).tolist() == brute_force(query, graph, "train")


def test_a_batch_is_split_and_what_is_too_large_is_refused_or_marked() -> None:
    every = [(f"a{i}", "r", f"a{j}") for i in range(12) for j in range(12)]
    graph = from_names("g", {"train": [*every, ("a0", "q", "a1"), ("a1", "q", "a2")]})
    index, one = graph.index("train"), graph.relation("q")
    groundings = Groundings(np.array([[1 - one], [one], [1 - one], [one]]), np.zeros((4, 0), np.int64))
    template = Template.of(parse("r1(e1,e2) & r1(e2,f)"))
    assert answers(template, groundings, index, limit=300).counts.tolist() == [12, 1, 12, 1]
    with pytest.raises(QueryTooLargeError, match=r"would have 144 rows, over 100"):
        answers(template, groundings, index, limit=100)
    found, refused = answers_within(template, groundings, index, limit=100)
    assert refused.tolist() == [True, False, True, False]
    assert [found[row].tolist() for row in range(4)] == [[], [graph.entity("a2")]] * 2


def test_unknown_names_list_the_nearest() -> None:
    graph = from_names("g", {"train": [("aspirin", "treats", "pain")]})
    with pytest.raises(TaskError, match=r"unknown entity 'asprin'. Did you mean 'aspirin'"):
        to_ids(parse("treats(asprin,f)"), graph)
    with pytest.raises(TaskError, match="unknown relation 'treat'"):
        to_ids(parse("treat(aspirin,f)"), graph)
