from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kgqa_queries import formulas
from kgqa_reference import brute_force, graphs, queries

from peirce_queries.graphs.graph import Graph
from peirce_queries.languages.language import (
    FREE,
    Atom,
    Query,
    Variable,
    alpha_equivalent,
    canonical,
    disjunctive,
    parse,
    reverse,
    with_atoms,
)
from peirce_queries.languages.types import load_types

renamings = st.permutations(range(1, 8)).map(lambda new: {f"e{i}": f"e{n}" for i, n in enumerate(new, 1)})


def renamed(query: Query, names: dict[str, str]) -> Query:
    """The query with other names of variables."""

    def change(atom: Atom) -> Atom:
        ends = (Variable(names.get(t.name, t.name)) if isinstance(t, Variable) else t for t in atom.terms)
        return Atom(atom.relation, *ends)

    return Query(with_atoms(query.formula, change))


@given(queries(entities=4), graphs(entities=4))
def test_the_disjunctive_form_means_the_same(query: Query, graph: Graph) -> None:
    normal = disjunctive(query)
    # A disjunct may lack f, as in (r(a,f))|(r(a,e1)); the whole never does.
    assert brute_force(normal, graph, "train") == brute_force(query, graph, "train")
    assert disjunctive(normal) == normal
    assert parse(str(normal)) == normal


@given(queries(), renamings, st.integers(1, 3), st.integers(1, 3))
def test_renamed_queries_are_equivalent(query: Query, names: dict[str, str], one: int, other: int) -> None:
    same = renamed(query, names)
    assert alpha_equivalent(query, same)
    assert alpha_equivalent(same, query)
    assert canonical(same) == canonical(query) == canonical(canonical(query))
    merged = renamed(query, {f"e{one}": f"e{other}"})
    both = {Variable(f"e{one}"), Variable(f"e{other}")} <= set(query.variables)
    assert alpha_equivalent(query, merged) == (one == other or not both)


def test_what_is_not_equivalent() -> None:
    for left, right in (
        ("r(e1,f)", "r(f,e1)"),
        ("r(e1,e1)&r(a,f)", "r(e1,e2)&r(a,f)"),
        ("r(e1,f)", 'r("e1",f)'),
        ("r(e1,f)", "r(f,f)"),
        ("r(a,f)&p(a,f)", "p(a,f)&r(a,f)"),
    ):
        assert not alpha_equivalent(parse(left), parse(right))
    types = [kind.query for kind in load_types().values()]
    assert sum(alpha_equivalent(left, right) for left in types for right in types) == 55
    assert FREE in canonical(parse("r(e7,f)")).variables


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
