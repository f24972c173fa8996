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
        (
            "MATCH (a)-[:r]->(b), (b)-[:s]->() MATCH (a)-[:t]->(b) RETURN b, a",
            "(r(f2,f1))&(s(f1,e1))&(t(f2,f1))",
        ),
        (
            f"{EDGE} WHERE NOT EXISTS {{ (a)-[:t]->(f), (f)-[:s]->(a) WHERE NOT (f)-[:u]->({{n:'x'}}) }} RETURN f",
            "(r(e1,f))&(!((t(e1,f))&(s(f,e1))&(!(u(f,x)))))",
        ),
        (f"{EDGE} RETURN f UNION MATCH (g)-[:s]->({{n:'y'}}) RETURN g", "(r(e1,f))|(s(f,y))"),
        ("match(a,f)", "match(a,f)"),
    ],
)
def test_patterns_are_read(text: str, query: str) -> None:
    assert str(read_query(text, pairs=True)) == query


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("MATCH (f)-[:r]->(:x) RETURN f", r"column 18: ':' cannot stand here; expected '\)'"),
        (
            "MATCH (a)-[:r*2]->(f) RETURN f",
            r"column 14: '\*' cannot .*; of openCypher, MATCH of single edges",
        ),
        (f"OPTIONAL {EDGE} RETURN f", "column 1: 'OPTIONAL' cannot .* expected MATCH; of openCypher"),
        ("MATCH (a)-[:r]-(f) RETURN f", "column 13: an edge has one direction"),
        (f"{EDGE} WHERE NOT (f)-[:s]->() RETURN f", r"column 41: \(\) stands in a negation alone"),
        (f"{EDGE} WHERE NOT (f)-[:s]->(b) RETURN f", "column 42: b stands in a negation alone"),
        (f"{EDGE} WHERE NOT (f)-[:s]->(a {{n:'x'}}) RETURN f", "column 42: a is an entity; say so in MATCH"),
        (f"{EDGE} WHERE (f)-[:s]->(a) RETURN f", r"column 27: '\(' cannot stand here; expected NOT"),
        ("MATCH (f {n:'x'})-[:r]->(g) RETURN f", "column 8: f is asked for, and some way"),
        (f"{EDGE} RETURN f UNION {EDGE} RETURN a, f", "column 8: all queries of a UNION return as many"),
        ("MATCH (f) RETURN f", "column 8: the pattern has no edge"),
        ("MATCH (a)-->(f) RETURN f", r"column 11: '-' cannot stand here; expected '\['"),
    ],
)
def test_other_patterns_are_refused_with_their_column(text: str, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        read_query(text, pairs=True)
