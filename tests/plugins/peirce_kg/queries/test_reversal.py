from __future__ import annotations

import pytest
from hypothesis import given
from kgqa_queries import formulas
from kgqa_reference import brute_force, graphs, queries
from peirce_kg.graphs.graph import Graph
from peirce_kg.queries.language import Query, parse
from peirce_kg.queries.normal import reverse
from peirce_kg.queries.types import load_types

TABLE_13 = {
    "2p": ("(r1(s1,e1))&(r2(e1,f))", "(r2(e1,f))&(r1(s1,e1))"),
    "3p": ("((r1(s1,e1))&(r2(e1,e2)))&(r3(e2,f))", "((r3(e2,f))&(r2(e1,e2)))&(r1(s1,e1))"),
    "ip": ("((r1(s1,e1))&(r2(s2,e1)))&(r3(e1,f))", "((r3(e1,f))&(r2(s2,e1)))&(r1(s1,e1))"),
    "pi": ("((r1(s1,e1))&(r2(e1,f)))&(r3(s2,f))", "((r3(s2,f))&(r2(e1,f)))&(r1(s1,e1))"),
    "2in": ("(r1(s1,f))&(!(r2(s2,f)))", "(!(r2(s2,f)))&(r1(s1,f))"),
}


@pytest.mark.parametrize("name", TABLE_13)
def test_table_13_comes_out(name: str) -> None:
    before, after = TABLE_13[name]
    assert str(reverse(parse(before))) == after
    flat = load_types()[name].query
    assert [str(atom) for atom in reverse(flat).atoms] == [str(atom) for atom in reversed(flat.atoms)]


@given(formulas.map(Query))
def test_reversal_is_an_involution_that_reverses_the_atoms(query: Query) -> None:
    assert reverse(reverse(query)) == query
    assert reverse(query).atoms == query.atoms[::-1]
    assert len(str(reverse(query))) == len(str(query))


@given(queries(entities=4), graphs(entities=4))
def test_reversal_keeps_the_meaning(query: Query, graph: Graph) -> None:
    assert brute_force(reverse(query), graph, "train") == brute_force(query, graph, "train")


def test_parentheses_stay_where_they_are() -> None:
    query = parse("((a(x,f)&b(x,f))&(c(x,f)|!(d(x,f)&g(x,f))))&h(x,f)")
    assert str(reverse(query)) == str(parse("((h(x,f)&(!(g(x,f)&d(x,f))|c(x,f)))&b(x,f))&a(x,f)"))
