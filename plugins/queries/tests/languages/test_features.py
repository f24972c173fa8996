from __future__ import annotations

import pytest
from hypothesis import given
from kgqa_reference import queries

from peirce_queries.languages.features import Features, features
from peirce_queries.languages.language import Query, canonical, disjunctive, parse, reverse
from peirce_queries.languages.parsing import QueryError
from peirce_queries.languages.types import load_types

TABLES_10_AND_11 = """
1p 1, 2p 2, 3p 3, 2i 1, 3i 1, ip 2, pi 2, 2in neg 1, 3in neg 1, inp neg 2, pin neg 2, pni neg 2, 2u 1, up 2, 2m mul 2,
2nm mul neg 2, 3mp mul 3, 3pm mul 3, im mul 2, 2il exi 1, 3il exi 1, 3c cyc 3, 3cm mul cyc 3, 2pi 2, 2pu 2, ui 2, iu 2,
upi 2, ipu 2, i2p 3, u2p 3, 2pin neg 2, 2pni neg 2, pn3i neg 2, in2p neg 3, inu neg 2, inpu neg 2, upni neg 2,
unpi neg 2, imp mul 3, ipm mul 3, 3im mul 2, pil exi 2, ilp exi 2, p3il exi 2, i3c cyc 3, i3cm mul cyc 3,
3inl exi neg 1, pinl exi neg 2, inm mul neg 2, inmp mul neg 3, inpm mul neg 3, 3nmp mul neg 3, 3cn cyc neg 3,
3cnm mul cyc neg 3
"""
"""The features of each type as printed, in the order of the tables."""
INPM_AS_PRINTED = "(r1(s1,e1))&(!(r2(s2,e1)))&(r3(e1,f))&(r4(e2,f))&(r5(e2,f))"


def read(printed: str) -> Features:
    *marks, depth = printed.split()
    names = {"mul": "multiple_edges", "cyc": "cycle", "exi": "existential_leaf", "neg": "negation"}
    return Features(**{name: mark in marks for mark, name in names.items()}, depth=int(depth))


def test_features_are_those_of_the_tables() -> None:
    rows = (row.split(maxsplit=1) for row in TABLES_10_AND_11.replace("\n", " ").split(","))
    table, types = {name: read(marks) for name, marks in rows}, load_types()
    assert list(table) == list(types)
    assert {name: features(kind.query) for name, kind in types.items()} == table
    assert [name for name, kind in types.items() if kind.seen] == list(table)[:23]


def test_inpm_as_printed_has_not_the_features_printed_beside_it() -> None:
    assert features(parse(INPM_AS_PRINTED)) == read("mul exi neg 2")
    corrected = INPM_AS_PRINTED.replace("r3(e1,f)", "r3(e1,e2)")
    assert load_types()["inpm"].query == parse(corrected)


@given(queries())
def test_features_belong_to_the_meaning(query: Query) -> None:
    expected = features(query)
    for same in (reverse(query), canonical(query), disjunctive(query)):
        assert features(same) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r(f,f)", "cyc 0"),
        ("r(f,f)&p(f,f)&q(a,f)", "cyc 1"),
        ("r(e1,f)&p(f,e1)", "mul exi 1"),
        ("r(a,f)&p(a,f)", "1"),
        ("r(a,e1)&p(e1,a)&q(e1,f)", "2"),
        ("r(e1,f)|p(e1,f)", "exi 1"),
        ("r(a,f)&r(a,f)", "1"),
        ("r(a,e1)&q(e1,f)&!q(e1,f)", "neg 2"),
        ("!!r(a,f)", "1"),
        ("!(r(a,f)|!p(e1,f))", "exi neg 1"),
        ("r(e1,e2)&r(e2,e3)&r(e3,e1)&r(e3,f)", "cyc 3"),
    ],
)
def test_features_of_other_shapes(text: str, expected: str) -> None:
    assert features(parse(text)) == read(expected)


def test_tangled_queries_are_refused() -> None:
    ring = "&".join([*(f"r(e{i},e{i + 1})" for i in range(1, 13)), "r(e13,e1)", "r(e1,f)"])
    with pytest.raises(QueryError, match=r"14 variables run in circles; .* up to 12"):
        features(parse(ring))
