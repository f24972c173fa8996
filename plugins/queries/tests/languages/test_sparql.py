"""SPARQL as queries: rdflib gives the same answers, and what EFO cannot say is refused with its column."""

from __future__ import annotations

import pytest
import rdflib
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kgqa_reference import graphs

from peirce_queries.engine.answers import answer, pair_answers, to_ids
from peirce_queries.graphs.graph import Graph
from peirce_queries.languages.conversion import read_query
from peirce_queries.languages.parsing import QueryError

TERMS = st.sampled_from(["?f", "?f", "?x", "$y", "<http://g/a0>", ":a1"])
TRIPLES = st.builds("{} <http://g/{}> {} .".format, TERMS, st.sampled_from(["p0", "p1"]), TERMS)


def _groups(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.lists(inner, min_size=1, max_size=3).map(lambda parts: "{ " + " ".join(parts) + " }")
    return st.one_of(
        group,
        st.builds("{} UNION {}".format, group, group),
        group.map(lambda own: f"FILTER NOT EXISTS {own}"),
    )


PATTERNS = st.lists(st.recursive(TRIPLES, _groups, max_leaves=4), min_size=1, max_size=3)
XSD = "http://www.w3.org/2001/XMLSchema#"
FIVE = f'\\"5\\"^^<{XSD}integer>'
DECIMAL, BOOLEAN = f'\\"-1.5\\"^^<{XSD}decimal>', f'\\"true\\"^^<{XSD}boolean>'
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(entities=4), PATTERNS, st.sampled_from([["?f"], ["?f"], ["?f", "?x"]]))
def test_answers_equal_those_of_rdflib(graph: Graph, parts: list[str], asked: list[str]) -> None:
    text = f"PREFIX : <http://g/> SELECT DISTINCT {' '.join(asked)} WHERE {{ {' '.join(parts)} }}"
    try:
        query = read_query(text.replace("http://g/", ""), pairs=True)
    except QueryError as error:
        assume("alone" not in str(error) and "unbound" not in str(error))
        raise
    theirs = rdflib.Graph()
    for h, r, t in graph.added["train"].tolist():
        names = (graph.entity_names[h], graph.relation_names[r], graph.entity_names[t])
        theirs.add(tuple(rdflib.URIRef(f"http://g/{name}") for name in names))
    expected = sorted([name.removeprefix("http://g/") for name in row] for row in theirs.query(text))
    index = graph.index("train")
    if query.pairs:
        found = pair_answers(*to_ids(query, graph), index)[0].tolist()
    else:
        found = [[entity] for entity in answer(query, graph, index).tolist()]
    assert [[graph.entity_names[entity] for entity in row] for row in found] == expected


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("select ?f { <New York> <isa> ?f ; <r> <b>, <c> }", "(isa(N,f))&(r(N,b))&(r(N,c))"),
        ('BASE <x> SELECT ?f { ?f a "1"@EN }', "column 1"),
        ('SELECT ?f { ?f a "1"@EN } # asks', f'{TYPE}(f,"\\"1\\"@en")'),
        (
            f'PREFIX x: <{XSD}> SELECT ?f {{ ?f <n> \'a"b\'^^x:string, """a"b""" }}',
            '(n(f,"\\"a\\\\\\"b\\""))&(n(f,"\\"a\\\\\\"b\\""))',
        ),
        (f'PREFIX x: <{XSD}> SELECT ?f {{ ?f <n> 5, "5"^^x:integer }}', f'(n(f,"{FIVE}"))&(n(f,"{FIVE}"))'),
        ("SELECT ?f { ?f <n> -1.5, true. }", f'(n(f,"{DECIMAL}"))&(n(f,"{BOOLEAN}"))'),
        ("SELECT*{<a><r>?f}", "r(a,f)"),
        ("SELECT REDUCED ?f { <a> <r> ?f }", "r(a,f)"),
        ("SELECT * { ?b <r> ?a . ?a <s> _:z }", "(r(f1,f2))&(s(f2,e1))"),
        ("SELECT DISTINCT * WHERE { <a> <r> ?x FILTER NOT EXISTS { ?x <r> <b> } }", "(r(a,f))&(!(r(f,b)))"),
        ("SELECT * { ?a <r> ?b . ?b <r> ?c }", r"column 8: \* is \?a, \?b, \?c here; select one"),
        ("SELECT * { <a> <r> <b> }", r"column 8: \* is no variable here"),
        ("SELECT * { { <a> <r> ?f } UNION { <a> <r> ?e } }", "column 22: .*unbound"),
        ('SELECT ?f { ?f <n> "5"^^x:integer }', "column 20: the prefix x:"),
        ("SELECT ?a ?b { ?b <r> ?a . ?a <s> _:z }", "(r(f2,f1))&(s(f1,e1))"),
        ("SELECT ?f { <a> <r> ?f FILTER NOT EXISTS { ?e <s> ?f } }", "column 44: \\?e stands"),
        ("SELECT ?f { { <a> <r> ?f } UNION { <a> <r> ?e } }", "column 8: \\?f is returned"),
        ("SELECT ?f { { FILTER NOT EXISTS { <a> <r> ?f } } <b> <r> ?f }", "column 39: a filter alone"),
        ("SELECT ?f ?g ?h { ?f <r> ?g . ?g <r> ?h }", "column 14: return one variable"),
        ("SELECT ?f { <a> x:r ?f }", "column 17: the prefix x:"),
        ("SELECT ?f { <a> ?r ?f }", "column 17: '\\?r'"),
        ("SELECT ?f { OPTIONAL { ?f <r> <a> } }", "column 13: 'OPTIONAL' .*; of SPARQL"),
        ("ASK { <a> <r> <b> }", "column 1: 'ASK' .*; of SPARQL"),
        ("SELECT ?f { <a> <\\uD800> ?f }", "column 17: .*does not encode a character"),
    ],
)
def test_what_is_read(text: str, query: str) -> None:
    if query.startswith("column"):
        with pytest.raises(QueryError, match=query):
            read_query(text, pairs=True)
    else:
        assert str(read_query(text, pairs=True)) == query.replace("N", '"New York"')
