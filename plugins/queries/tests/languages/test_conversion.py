"""Conversion between the syntaxes: it keeps meaning, and TEGA's Table 12 comes out."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kgqa_queries import expressions
from kgqa_reference import brute_force, graphs, queries

from peirce_queries.graphs.graph import Graph
from peirce_queries.languages.conversion import read_query, to_efo, to_lisp
from peirce_queries.languages.language import Atom, Constant, Formula, Not, Query, alpha_equivalent, parse
from peirce_queries.languages.lisp import (
    Complement,
    Intersection,
    Projection,
    SetExpression,
    Union,
    parse_lisp,
)
from peirce_queries.languages.parsing import MAX_DEPTH, QueryError
from peirce_queries.languages.types import load_types

TABLE_12 = {
    "1p": "(p,(r1),(s1))",
    "2p": "(p,(r2),(p,(r1),(s1)))",
    "3p": "(p,(r3),(p,(r2),(p,(r1),(s1))))",
    "2i": "(i,(p,(r1),(s1)),(p,(r2),(s2)))",
    "3i": "(i,(p,(r1),(s1)),(p,(r2),(s2)),(p,(r3),(s3)))",
    "ip": "(p,(r3),(i,(p,(r1),(s1)),(p,(r2),(s2))))",
    "pi": "(i,(p,(r2),(p,(r1),(s1))),(p,(r3),(s2)))",
    "2in": "(i,(p,(r1),(s1)),(n,(p,(r2),(s2))))",
    "3in": "(i,(p,(r1),(s1)),(p,(r2),(s2)),(n,(p,(r3),(s3))))",
    "inp": "(p,(r3),(i,(p,(r1),(s1)),(n,(p,(r2),(s2)))))",
    "pin": "(i,(p,(r2),(p,(r1),(s1))),(n,(p,(r3),(s2))))",
    "2u": "(u,(p,(r1),(s1)),(p,(r2),(s2)))",
    "up": "(p,(r3),(u,(p,(r1),(s1)),(p,(r2),(s2))))",
    "2pi": "(i,(p,(r2),(p,(r1),(s1))),(p,(r4),(p,(r3),(s2))))",
    "2pu": "(u,(p,(r3),(p,(r1),(s1))),(p,(r4),(p,(r2),(s2))))",
    "ui": "(i,(p,(r4),(s3)),(p,(r3),(u,(p,(r1),(s1)),(p,(r2),(s2)))))",
    "iu": "(u,(p,(r4),(s3)),(p,(r3),(i,(p,(r1),(s1)),(p,(r2),(s2)))))",
    "upi": "(i,(p,(r5),(p,(r4),(s3))),(p,(r3),(u,(p,(r1),(s1)),(p,(r2),(s2)))))",
    "ipu": "(u,(p,(r5),(p,(r4),(s3))),(p,(r3),(i,(p,(r1),(s1)),(p,(r2),(s2)))))",
    "i2p": "(p,(r4),(p,(r3),(i,(p,(r1),(s1)),(p,(r2),(s2)))))",
    "u2p": "(p,(r4),(p,(r3),(u,(p,(r1),(s1)),(p,(r2),(s2)))))",
    "2pin": "(i,(i,(p,(r4),(p,(r3),(s2))),(p,(r2),(p,(r1),(s1)))),(n,(p,(r5),(s3))))",
    "in2p": "(p,(r4),(p,(r3),(i,(p,(r1),(s1)),(n,(p,(r2),(s2))))))",
    "inu": "(u,(p,(r4),(s3)),(p,(r3),(i,(p,(r1),(s1)),(n,(p,(r2),(s2))))))",
    "inpu": "(u,(p,(r5),(p,(r4),(s3))),(p,(r3),(i,(p,(r1),(s1)),(n,(p,(r2),(s2))))))",
}
"""As printed; the order of operands is not the EFO syntax's where an operand is shorter."""
REORDERED = {"ui", "iu", "upi", "ipu", "2pin", "inu", "inpu"}
"""Types whose operands Table 12 prints in another order than their formulas do."""


def same_up_to_order(left: Query, right: Query) -> bool:
    """Whether some order of operands makes them the same but for the names of variables."""
    return any(alpha_equivalent(Query(formula), right) for formula in orders(left.formula))


def orders(formula: Formula) -> list[Formula]:
    if isinstance(formula, Atom):
        return [formula]
    if isinstance(formula, Not):
        return [Not(operand) for operand in orders(formula.operand)]
    found: list[tuple[Formula, ...]] = [()]
    for operand in formula.operands:
        found = [(*before, one) for before in found for one in orders(operand)]
    return [type(formula)(tuple(chosen)) for operands in found for chosen in permutations(operands)]


def members(expression: SetExpression, graph: Graph) -> set[int]:
    """The set that an expression denotes on the training graph, by the definitions of its operators."""
    match expression:
        case Projection(relation, source):
            heads = {graph.entity(source.name)} if isinstance(source, Constant) else members(source, graph)
            triples = graph.added["train"].tolist()
            return {t for h, r, t in triples if r == graph.relation(relation) and h in heads}
        case Intersection(operands):
            return set.intersection(*(members(operand, graph) for operand in operands))
        case Union(operands):
            return set().union(*(members(operand, graph) for operand in operands))
        case Complement(operand):
            return set(range(graph.entities)) - members(operand, graph)


def test_table_12_comes_out() -> None:
    types = load_types()
    for name, printed in TABLE_12.items():
        query, expression = types[name].query, parse_lisp(printed)
        assert str(expression) == printed
        assert same_up_to_order(to_efo(expression), query), name
        assert (str(to_lisp(query)) == printed) == (name not in REORDERED), name
        assert to_efo(to_lisp(query)) == query, name


def test_other_types_are_refused_with_a_reason() -> None:
    others = {name: kind.query for name, kind in load_types().items() if name not in TABLE_12}
    assert len(others) == 30
    reasons = dict.fromkeys(("2m", "3c"), "not independent") | {
        "2il": "nothing else leads to",
        "pni": "ties f",
    }
    for name, query in others.items():
        with pytest.raises(QueryError, match=f"has no Lisp-like form: .*{reasons.get(name, '')}"):
            to_lisp(query)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("r(f,s)", "r\\(f,s\\) does not lead to f"),
        ("r(f,f)", "from a variable that nothing else"),
        ("(r(s,e1))&(r(f,e1))", "r\\(f,e1\\) does not lead from a variable to f"),
        ("!((r(s,e1))&(r(e1,f)))", "the variable e1 stands under a negation"),
        ("(r(s,e1))&((!(r(e1,f)))|(q(e1,f)))", "ties f to a variable"),
    ],
)
def test_refusals_say_why(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        to_lisp(parse(text))


def test_complements_of_sets_that_variables_make_are_refused() -> None:
    with pytest.raises(QueryError, match=r"stands in a complement.* of every entity in \(p,\(r1\),\(s1\)\)"):
        to_efo(parse_lisp("(i,(n,(p,(r2),(p,(r1),(s1)))),(p,(r3),(s2)))"))
    twice = to_efo(parse_lisp("(n,(n,(p,(r2),(p,(r1),(s1)))))"))
    assert str(twice) == "!(!((r1(s1,e1))&(r2(e1,f))))"
    assert str(to_lisp(twice)) == "(n,(n,(p,(r2),(p,(r1),(s1)))))"


def test_long_chains_are_refused_where_they_would_nest_too_deep() -> None:
    def chain(length: int) -> Query:
        middle = [f"r(e{i},e{i + 1})" for i in range(1, length - 1)]
        return parse("&".join(["r(s,e1)", *middle, f"r(e{length - 1},f)"]))

    longest = to_lisp(chain(MAX_DEPTH))
    assert parse_lisp(str(longest)) == longest
    for length in (MAX_DEPTH + 1, 300):
        with pytest.raises(QueryError, match="it would nest deeper than 50 levels"):
            to_lisp(chain(length))


def test_either_syntax_is_read() -> None:
    assert read_query(" ( p,(r1),(s1))") == read_query("r1(s1,f)")
    for text in ("(x,(r1),(s1))", "(r(a,f&b))"):
        with pytest.raises(QueryError, match=r"column [27]"):
            read_query(text)


relations, entities = st.sampled_from(["p0", "p1"]), st.sampled_from(["a0", "a1", "a2"])


@given(expressions(relations, entities), graphs(entities=4))
def test_formulas_of_expressions_mean_the_same(expression: SetExpression, graph: Graph) -> None:
    try:
        query = to_efo(expression)
    except QueryError:
        assume(False)
    assume(len(query.variables) <= 5)
    assert brute_force(query, graph, "train") == sorted(members(expression, graph))
    back = to_lisp(query)
    assert members(back, graph) == members(expression, graph)
    assert parse(str(query)) == query


@given(queries(entities=4), graphs(entities=4))
def test_expressions_of_formulas_mean_the_same(query: Query, graph: Graph) -> None:
    try:
        expression = to_lisp(query)
    except QueryError:
        return
    assert sorted(members(expression, graph)) == brute_force(query, graph, "train")
