from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kgqa_reference import brute_force, graphs, queries
from peirce.errors import TaskError
from peirce_plugins.tasks.kgqa.engine import (
    Answers,
    Groundings,
    QueryTooLargeError,
    Template,
    answer,
    answers,
    resolve,
    spans,
)
from peirce_plugins.tasks.kgqa.graph import SPLITS, Graph, Split, from_names
from peirce_plugins.tasks.kgqa.language import Query, parse
from peirce_plugins.tasks.kgqa.querytypes import load_types

TYPES = load_types()


def loose(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


@loose(400)
@given(graphs(), queries(), st.sampled_from(SPLITS))
def test_random_formulas_equal_brute_force(graph: Graph, query: Query, split: Split) -> None:
    assert answer(query, graph, graph.index(split)).tolist() == brute_force(query, graph, split)


@pytest.mark.parametrize("name", TYPES)
@loose(8)
@given(graph=graphs(entities=4), data=st.data())
def test_every_type_equals_brute_force(name: str, graph: Graph, data: st.DataObject) -> None:
    template = Template.of(TYPES[name].query)
    count = 3
    relations, constants = (
        np.array([[data.draw(st.integers(0, high - 1)) for _ in names] for _ in range(count)], np.int64)
        for names, high in ((template.relations, graph.relations), (template.constants, graph.entities))
    )
    found = answers(template, Groundings(relations, constants), graph.index("test"))
    for row in range(count):
        names = {
            **{s: graph.relation_names[i] for s, i in zip(template.relations, relations[row], strict=True)},
            **{s: graph.entity_names[i] for s, i in zip(template.constants, constants[row], strict=True)},
        }
        grounded = TYPES[name].query.ground(names)
        assert found[row].tolist() == brute_force(grounded, graph, "test")
        assert answer(grounded, graph, graph.index("test")).tolist() == found[row].tolist()


def test_negated_atom_is_false_of_the_pair_not_a_complement() -> None:
    graph = from_names(
        "g", {"train": [("s", "r1", "x"), ("s", "r1", "y"), ("x", "r2", "z"), ("t", "r3", "z")]}
    )
    # x is related to z but y is not: some e1 with r1(s,e1) and not r2(e1,z) exists, so z is an answer
    found = answer(parse("r1(s,e1) & !r2(e1,f) & r3(t,f)"), graph, graph.index("train"))
    assert [graph.entity_names[i] for i in found] == ["z"]


def test_variables_may_coincide_and_need_no_constant() -> None:
    graph = from_names("g", {"train": [("a", "r", "a"), ("a", "r", "b"), ("b", "r", "c")]})

    def names(text: str) -> list[str]:
        return [graph.entity_names[i] for i in answer(parse(text), graph, graph.index("train"))]

    assert names("r(f,f)") == ["a"]
    assert names("r(e1,e2) & r(e2,f)") == ["a", "b", "c"]
    assert names("!r(a,f)") == ["c"]
    assert names("r(a,a) & !r(f,e1)") == ["a", "b", "c"]
    assert names("r(c,c) | (r(a,f) & r(a,b))") == ["a", "b"]


def test_batch_is_split_before_a_query_is_refused() -> None:
    graph = from_names("g", {"train": [(f"a{i}", "r", f"a{j}") for i in range(12) for j in range(12)]})
    query = parse("r(e1,e2) & r(e2,f)")
    template = Template.of(query)
    groundings = Groundings(np.zeros((8, 1), np.int64), np.zeros((8, 0), np.int64))
    index = graph.index("train")
    assert answers(template, groundings, index, limit=300).counts.tolist() == [12] * 8
    with pytest.raises(QueryTooLargeError, match=r"would have 144 rows, over 100"):
        answers(template, groundings, index, limit=100)


def test_unknown_names_list_the_nearest() -> None:
    graph = from_names("g", {"train": [("aspirin", "treats", "pain")]})
    with pytest.raises(TaskError, match=r"unknown entity 'asprin'. Did you mean 'aspirin'"):
        resolve(parse("treats(asprin,f)"), graph)
    with pytest.raises(TaskError, match="unknown relation 'treat'"):
        resolve(parse("treat(aspirin,f)"), graph)
    assert answer(parse("0(0,f)"), graph, graph.index("train")).tolist() == [graph.entity("pain")]


def test_answers_sets() -> None:
    left = Answers.of(np.array([1, 2, 5 + 0, 5 + 4]), 3, 5)
    right = Answers.of(np.array([2, 5 + 4, 10]), 3, 5)
    assert [a.tolist() for a in (left[0], left[1], left[2])] == [[1, 2], [0, 4], []]
    rest = left.minus(right, 5)
    assert [rest[i].tolist() for i in range(3)] == [[1], [0], []]
    chosen = left.select(np.array([2, 1, 1]))
    assert [chosen[i].tolist() for i in range(3)] == [[], [0, 4], [0, 4]]
    assert spans(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
