"""openCypher's MATCH as queries."""

from __future__ import annotations

import pytest

from peirce_queries.languages.conversion import read_query
from peirce_queries.languages.parsing import QueryError

EDGE = "MATCH (a)-[:r]->(f)"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("MATCH ({name: 'New York'})-[:in]->(f) RETURN f", 'in("New York",f)'),
        ("match (a {id: 'x'})-[e:r]->(b)<-[:`t t`]-(f) return f as g", '(r(x,e1))&("t t"(f,e1))'),
        (f"{EDGE}, (f)-[:s]->() MATCH (a)-[:t]->(f) RETURN f, a", "(r(f2,f1))&(s(f1,e1))&(t(f2,f1))"),
        (
            f"{EDGE} WHERE NOT EXISTS {{ (a)-[:t]->(f), (f)-[:s]->(a) WHERE NOT (f)-[:u]->({{n:'x'}}) }} RETURN f",
            "(r(e1,f))&(!((t(e1,f))&(s(f,e1))&(!(u(f,x)))))",
        ),
        (f"{EDGE} RETURN f UNION MATCH (g)-[:s]->({{n:'y'}}) RETURN g AS f", "(r(e1,f))|(s(f,y))"),
        (f"MATCH (a {{n:'x'}}), (c) {EDGE} MATCH (f)-[e:s]->(a {{id:'x'}}) RETURN f", "(r(x,f))&(s(f,x))"),
        ("match(a,f)", "match(a,f)"),
    ],
)
def test_patterns_are_read(text: str, query: str) -> None:
    assert str(read_query(text, pairs=True)) == query


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("MATCH (f)-[:r]->(:x) RETURN f", "column 18: ':'"),
        ("MATCH (a)-[:r*2]->(f) RETURN f", r"column 14: '\*' .*of openCypher"),
        (f"OPTIONAL {EDGE} RETURN f", "column 1: 'OPTIONAL' .*of openCypher"),
        ("MATCH (a)-[:r]-(f) RETURN f", "column 13: .*direction"),
        (f"{EDGE} WHERE NOT (f)-[:s]->() RETURN f", r"column 41: \(\) stands in a negation alone"),
        (f"{EDGE} WHERE NOT (f)-[:s]->(b) RETURN f", "column 42: b stands in a negation alone"),
        (f"{EDGE} WHERE NOT (f)-[:s]->(a {{n:'x'}}) RETURN f", "column 42: a is an entity"),
        (f"{EDGE} WHERE (f)-[:s]->(a) RETURN f", "column 27: .*NOT"),
        ("MATCH (f {n:'x'})-[:r]->(g) RETURN f", "column 8: f is returned"),
        (f"{EDGE} RETURN f UNION {EDGE} RETURN a, f", "column 63: .*UNION"),
        (f"{EDGE} WHERE NOT (a) RETURN f", "column 32: a stands without an edge"),
        (f"{EDGE} RETURN f UNION {EDGE} RETURN a", "column 63: .*the columns f; rename them"),
        (f"{EDGE} RETURN f AS x, a AS x", "column 41: two columns have one name"),
        ("MATCH (f)-[:r]->(a {n:'x'}), (a {m:'y'})-[:s]->(f) RETURN f", "column 31: the node a is x and y"),
        ("MATCH (f)-[e:r]->(a) MATCH (f)-[e:r]->(b) RETURN f", "column 33: e names two edges"),
        (f"{EDGE}, (b)-[e:s]->(f) WHERE NOT (f)-[e:t]->(a) RETURN f", "column 52: e names two edges"),
        ("MATCH (f)-[f:r]->(a) RETURN f", "column 12: f names a node and an edge"),
        ("MATCH (n), (f)-[n:r]->(a) RETURN f", "column 17: n names a node and an edge"),
        ("MATCH (f) RETURN f", "column 8: .*no edge"),
        ("MATCH (a)-->(f) RETURN f", "column 11: '-'"),
    ],
)
def test_other_patterns_are_refused_with_their_column(text: str, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        read_query(text, pairs=True)
