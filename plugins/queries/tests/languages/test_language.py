from __future__ import annotations

import json
import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from kgqa_queries import formulas

from peirce.errors import TaskError
from peirce_queries.languages.language import (
    FREE,
    And,
    Atom,
    Constant,
    Literal,
    Not,
    Or,
    Query,
    Variable,
    parse,
)
from peirce_queries.languages.parsing import MAX_DEPTH, MAX_LENGTH, QueryError
from peirce_queries.languages.types import load_types, select

queries = formulas.map(Query).filter(lambda query: FREE in query.variables)


@given(queries)
def test_printed_queries_parse_to_the_same(query: Query) -> None:
    assert parse(str(query)) == query


def test_types_print_as_they_are_written() -> None:
    text = (files("peirce_queries.languages") / "types.toml").read_text(encoding="utf-8")
    written = {table["name"]: table["formula"] for table in tomllib.loads(text)["type"]}
    types = load_types()
    assert {name: str(kind.query) for name, kind in types.items()} == written
    assert len(types) == 55
    assert [sum(kind.seen == seen for kind in types.values()) for seen in (True, False)] == [23, 32]
    assert len({str(kind.query) for kind in types.values()}) == 55


def test_binding_strength_and_spaces() -> None:
    loose = parse("  !r(a,f) & p( a , e1 )\n | q(e1,f) ")
    a, e1 = Constant("a"), Variable("e1")
    r, p, q = Atom("r", a, FREE), Atom("p", a, e1), Atom("q", e1, FREE)
    assert loose == Query(Or((And((Not(r), p)), q)))
    assert parse("((r(a,f)))") == Query(r)


def test_quoted_names() -> None:
    query = parse('"is a"(\'f\',f) & located(  "New York, \\"NY\\"" , f) & r("e1",e1)')
    assert query.relations == ("is a", "located", "r")
    assert query.constants == ("f", 'New York, "NY"', "e1")
    assert query.variables == (FREE, Variable("e1"))


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("r(a,f", 6, "the end of the query"),
        ("r(a f)", 5, "'f' .*','"),
        ("r(a,f)) & p(a,f)", 7, "'\\)'"),
        ("r(a,f) & 'p(a,f)", 10, "quote"),
        ("r(a\\,f)", 4, "quotes"),
        ('r("",f)', 3, "empty"),
        ('r("a\\q",f)', 5, "escape"),
        ("r(a,e1)", 1, "the free variable f"),
        ("", 1, "the end of the query"),
    ],
)
def test_mistakes_are_shown_at_their_column(text: str, column: int, problem: str) -> None:
    with pytest.raises(QueryError, match=f"column {column}: .*{problem}") as raised:
        parse(text)
    *_, line, caret = str(raised.value).split("\n")
    assert caret.index("^") == column + 1
    assert line == f"  {text}"


def test_column_within_a_later_line_and_a_long_one() -> None:
    shown = r"line 2, column 4: '&' cannot stand here[^\n]*\n  p\(a&f\)\n     \^$"
    with pytest.raises(QueryError, match=shown):
        parse("r(a,f) &\np(a&f)")
    long = "&".join(["r(a,f)"] * 100)
    with pytest.raises(QueryError) as raised:
        parse(long + "&&")
    _, line, caret = str(raised.value).split("\n")
    assert len(line) < 110
    assert line[caret.index("^")] == "&"


def test_length_is_bounded_as_given_and_as_printed() -> None:
    with pytest.raises(QueryError, match="20006 characters; at most 20000"):
        parse("r(a,f)" + " " * MAX_LENGTH)
    flat = parse("&".join(["!(r(a,f))"] * 500))
    assert len(flat.atoms) == 500
    assert parse(str(flat)) == flat
    with pytest.raises(QueryError, match="with all parentheses, has 22"):
        parse("&".join(["r(a,f)"] * 2500))


def test_what_is_read_at_the_bound_of_depth_prints_to_what_is_read() -> None:
    half = MAX_DEPTH // 2
    for text in ("!" * MAX_DEPTH + "r(a,f)", "!(p(a,f)&" * half + "r(a,f)" + ")" * half):
        query = parse(text)
        assert parse(str(query)) == query
    with pytest.raises(QueryError, match="nests deeper than 50"):
        parse("!" * (MAX_DEPTH + 1) + "r(a,f)")
    assert parse("(" * 1000 + "r(a,f)" + ")" * 1000) == parse("r(a,f)")
    with pytest.raises(QueryError, match="column 10004: the end of the query"):
        parse("r(a,f)|" + "!(" * 4998)


def test_normal_form() -> None:
    query = parse("!(r(a,f) & (p(e1,f) | !q(a,e1))) | (r(a,f) & r(a,f))")
    r, p, q = (next(a for a in query.atoms if a.relation == name) for name in "rpq")
    wanted = ((Literal(r, False),), (Literal(p, False), Literal(q, True)), (Literal(r, True),))
    assert query.conjunctions() == wanted
    with pytest.raises(QueryError, match="more than 1024"):
        parse("&".join([f"(r(a{i},f)|p(a{i},f))" for i in range(11)])).conjunctions()


def test_grounding() -> None:
    query = parse("(r1(s1,e1))&(!(r2(e1,f)))")
    assert query.abstract
    grounded = query.ground({"r1": "treats", "s1": "f", "r2": "is a"})
    assert str(grounded) == '(treats("f",e1))&(!("is a"(e1,f)))'
    assert not grounded.abstract
    with pytest.raises(QueryError, match="missing r2; not in it r3"):
        query.ground({"r1": "treats", "s1": "x", "r3": "y"})


def _table(name: str) -> str:
    return f'[[type]]\nname = {json.dumps(name)}\nformula = "r1(s1,f)"\nseen = true\n'


def test_types_are_selected_by_name_and_group(tmp_path) -> None:
    types = load_types()
    assert [kind.name for kind in select(("2u", "1p", "2u"), types)] == ["2u", "1p"]
    assert [kind.name for kind in select(("seen",), types)] == [n for n, kind in types.items() if kind.seen]
    assert len(select(("unseen", "all"), types)) == 55
    with pytest.raises(QueryError.__mro__[1], match="unknown query type '2x'"):
        select(("2x",), types)
    with pytest.raises(TaskError, match=r"3p is not among those of this command \(1p, 2p\)"):
        select(("3p",), {name: types[name] for name in ("1p", "2p")})
    own = tmp_path / "own.toml"
    own.write_text('[[type]]\nname = "loop"\nformula = "r1(f,f)"\nseen = true\n')
    assert str(load_types(own)["loop"].query) == "r1(f,f)"
    own.write_bytes(b"\xef\xbb\xbf" + _table("löwe 2").encode())
    assert list(load_types(own)) == ["löwe 2"]
    for broken, why in (
        ('[[type]]\nname = "x"\nformula = "r1(f,f)"\n', "needs name, formula and seen"),
        ('[[type]]\nname = "x"\nformula = "r1(f,"\nseen = true', "column 6"),
        ('[[type]]\nname = "x"\nformula = "isa(s1,f)"\nseen = true', "r1, r2, ... and entities s1"),
        ('[[type]]\nname = "all"\nformula = "r1(s1,f)"\nseen = true', "is taken"),
        ("type = 3", r"must be \[\[type\]\] tables"),
        *((_table(name), "must be printable, without commas") for name in ("", " a", "a,b", "a\nb")),
    ):
        own.write_text(broken, encoding="utf-8")
        with pytest.raises(QueryError.__mro__[1], match=why):
            load_types(own)
