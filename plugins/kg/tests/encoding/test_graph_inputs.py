"""What a model is told of query graphs, held against the graphs themselves and against literal searches."""

from __future__ import annotations

from itertools import product

import pytest

from peirce.errors import TaskError
from peirce_kg.encoding.graph_inputs import TokenGraph, graph_inputs, token_graph
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.encoding.writing import query_tokens
from peirce_kg.parts.positions.query_graph import APART, FARTHEST, NODES, OUTSIDE, ROLES
from peirce_queries import NO_PATH
from peirce_queries.engine.template import Template
from peirce_queries.languages.language import Query, parse
from peirce_queries.languages.types import load_types

TYPES = {name: each.query for name, each in load_types().items()}


def shown(query: Query) -> tuple[list[str], TokenGraph]:
    return [str(token) for _, token in query_tokens(query)], token_graph(query)


def distance(graph: TokenGraph, x: int, y: int) -> int | None:
    code = int(graph.distances[x, graph.nodes[y]])
    return None if code == APART else code - FARTHEST


def roles(graph: TokenGraph, x: int, y: int) -> set[str]:
    code = int(graph.roles[x, graph.nodes[y]])
    return {name for place, name in enumerate(ROLES) if code >> place & 1}


def test_a_negated_atom() -> None:
    tokens, graph = shown(parse("(r1(s1,f))&(!(r2(s2,f)))"))
    assert [t for t, node in zip(tokens, graph.nodes, strict=True) if node == OUTSIDE] == [
        t for t in tokens if t in "()&"
    ]
    r1, s1, f, no, r2, s2 = (tokens.index(t) for t in ("r1", "s1", "f", "!", "r2", "s2"))
    assert len({int(graph.nodes[place]) for place in (r1, s1, f, no, r2, s2)}) == 6
    last = len(tokens) - 1 - tokens[::-1].index("f")
    assert graph.nodes[f] == graph.nodes[last]
    assert [distance(graph, s2, y) for y in (s2, r2, no, f, r1, s1)] == [0, 1, 2, 3, 4, 5]
    assert [distance(graph, f, y) for y in (r1, s1, no, r2, s2)] == [-1, -2, -1, -2, -3]
    assert [distance(graph, s1, s2), distance(graph, s2, s1)] == [-5, 5]  # s1 is nearer the answer
    assert distance(graph, 0, r1) is None
    assert distance(graph, r1, 0) is None
    assert roles(graph, s1, r1) == {"head"}
    assert roles(graph, r1, f) == {"tail"}
    assert roles(graph, r2, no) == {"negation"}
    assert roles(graph, no, f) == {"negated"}
    assert roles(graph, s1, f) == {"atom"}
    assert roles(graph, s2, f) == {"negative_atom"}
    assert roles(graph, f, last) == {"same"}
    assert roles(graph, f, s1) == roles(graph, r1, s2) == roles(graph, 0, f) == set()


def test_a_union_is_the_bar_between_relations_and_the_free_variable() -> None:
    tokens, graph = shown(parse("(r1(s1,f))|(r2(s2,f))"))
    bar, f, r1, r2 = (tokens.index(t) for t in ("|", "f", "r1", "r2"))
    assert [distance(graph, place, bar) for place in (r1, r2, f)] == [1, 1, -1]
    assert distance(graph, r1, f) == 2
    assert distance(graph, r1, r2) == 2
    assert roles(graph, bar, f) == {"answer"}
    assert roles(graph, r1, bar) == {"tail"}
    assert roles(graph, tokens.index("s1"), f) == {"atom"}


def test_without_a_bar_the_free_variable_is_the_union_too() -> None:
    tokens, graph = shown(parse("!((r1(s1,f))&(r2(s2,f)))"))
    first, second = (place for place, token in enumerate(tokens) if token == "f")
    assert graph.nodes[first] == graph.nodes[second]
    assert distance(graph, tokens.index("!"), first) == 1
    assert roles(graph, tokens.index("s1"), first) == {"negative_atom"}


def test_atoms_between_the_same_nodes_are_told_apart() -> None:
    tokens, graph = shown(parse("(r1(s1,f))&(!(r2(s1,f)))&(r3(f,s1))"))
    s1, f = tokens.index("s1"), tokens.index("f")
    assert roles(graph, s1, f) == {"atom", "negative_atom"}
    assert roles(graph, f, s1) == {"atom"}


def test_an_atom_that_the_disjunctive_form_repeats_stands_for_all_its_nodes() -> None:
    tokens, graph = shown(TYPES["up"])
    r1, r2, r3, f = (tokens.index(t) for t in ("r1", "r2", "r3", "f"))
    here, there, both = (place for place, token in enumerate(tokens) if token == "e1")
    assert distance(graph, r1, here) == distance(graph, r2, there) == 1
    assert distance(graph, here, r3) == distance(graph, there, r3) == 1
    assert roles(graph, here, there) == set()  # two conjunctions, two variables
    assert roles(graph, here, both) == roles(graph, there, both) == {"same"}
    assert distance(graph, r3, f) == 2


def test_every_type_has_as_many_entries_as_tokens() -> None:
    for query, reversed_ in product(TYPES.values(), (False, True)):
        tokens = list(query_tokens(query, reversed_=reversed_))
        graph = token_graph(query, reversed_=reversed_)
        assert graph.distances.shape == graph.roles.shape == (len(tokens), NODES)
        for (kind, token), node in zip(tokens, graph.nodes, strict=True):
            assert (node == OUTSIDE) == (kind in ("parenthesis", "conjunction")), token


def test_what_has_no_graph_is_refused() -> None:
    many = "&".join(f"(r{i}(s{i},f))" for i in range(1, 17))
    with pytest.raises(TaskError, match="33 nodes; a model that looks at it reads at most 31"):
        token_graph(parse(many))
    with pytest.raises(TaskError, match="reads EFO syntax, not lisp"):
        graph_inputs(Template.of(TYPES["1p"]), 1, Vocabulary("g", ("a",), ("r",), syntax="lisp"))
    assert NO_PATH != APART  # two codes for two ranges
