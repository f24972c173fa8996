from __future__ import annotations

import networkx as nx
from hypothesis import given
from kgqa_reference import queries

from peirce_queries.languages.language import Query, parse
from peirce_queries.languages.querygraph import NO_PATH, QueryGraph
from peirce_queries.languages.types import load_types


def named(text: str) -> tuple[list[str], set[tuple[str, str]]]:
    graph = QueryGraph.of(parse(text))
    names = [node.name for node in graph.nodes]
    return names, {(names[start], names[end]) for start, end in graph.edges}


def test_an_atom_is_a_path_and_its_negation_has_a_node_more() -> None:
    assert named("(r1(s1,f))&(!(r2(s2,f)))") == (
        ["s1", "r1", "f", "s2", "r2", "!"],
        {("s1", "r1"), ("r1", "f"), ("s2", "r2"), ("r2", "!"), ("!", "f")},
    )
    graph = QueryGraph.of(parse("(r1(s1,f))&(!(r2(s2,f)))"))
    kinds = ["entity", "relation", "free", "entity", "relation", "negation"]
    assert [node.kind for node in graph.nodes] == kinds
    assert graph.free == 2
    assert graph.nodes[5].literal is graph.nodes[4].literal
    assert graph.nodes[5].literal is not None
    assert not graph.nodes[5].literal.positive


def test_free_variables_of_conjunctions_meet_in_a_union() -> None:
    names, edges = named("(r1(s1,f))|(r2(s2,f))")
    assert names == ["s1", "r1", "|", "s2", "r2", "f"]
    assert edges == {("s1", "r1"), ("r1", "|"), ("s2", "r2"), ("r2", "|"), ("|", "f")}
    up = QueryGraph.of(load_types()["up"].query)
    assert [node.name for node in up.nodes] == ["s1", "r1", "e1", "r3", "|", "s2", "r2", "e1", "r3", "f"]
    assert sum(node.kind == "existential" for node in up.nodes) == 2


def test_variables_and_entities_of_one_conjunction_are_one_node() -> None:
    names, edges = named('(r(a,e1))&(p(a,e1))&(p(e1,f))&(q(f,f))&(q("f",f))')
    assert names == ["a", "r", "e1", "p", "p", "f", "q", "f", "q"]
    assert ("f", "q") in edges
    assert ("q", "f") in edges


@given(queries())
def test_distances_are_shortest_paths(query: Query) -> None:
    graph = QueryGraph.of(query)
    directed = nx.DiGraph()
    directed.add_nodes_from(range(len(graph.nodes)))
    directed.add_edges_from(graph.edges)
    ahead = dict(nx.all_pairs_shortest_path_length(directed))
    either = dict(nx.all_pairs_shortest_path_length(directed.to_undirected()))
    signed, unsigned = graph.distances(signed=True), graph.distances(signed=False)
    for x in directed:
        for y in directed:
            there, back = ahead[x].get(y), ahead[y].get(x)
            if there is None and back is None:
                assert signed[x, y] == NO_PATH
            elif back is None or (there is not None and there <= back):
                assert signed[x, y] == there
            else:
                assert signed[x, y] == -back
            assert unsigned[x, y] == either[x].get(y, NO_PATH)
