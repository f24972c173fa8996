from __future__ import annotations

import pytest
from hypothesis import given
from kgqa_queries import expressions, names

from peirce_queries.languages.language import Constant
from peirce_queries.languages.lisp import Complement, Projection, SetExpression, parse_lisp
from peirce_queries.languages.parsing import QueryError


@given(expressions(names, names))
def test_printed_expressions_parse_to_the_same(expression: SetExpression) -> None:
    assert parse_lisp(str(expression)) == expression


def test_spaces_quotes_and_names_like_operators() -> None:
    expected = Projection("is a", Projection("p", Constant("f")))
    assert parse_lisp("( p , ('is a') ,\n (p,(p),(\"f\")) )") == expected
    assert str(expected) == '(p,("is a"),(p,(p),("f")))'
    assert parse_lisp("(n,(p,(f),(n)))") == Complement(Projection("f", Constant("n")))


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("", 1, "the end of the query"),
        ("(p,(r1),s1)", 9, "'s1' .*'\\('"),
        ("(x,(r1),(s1))", 2, "x is not an operator"),
        ('("p",(r1),(s1))', 2, "is not an operator"),
        ("(p,(r1))", 2, "p takes a relation"),
        ("(i,(p,(r1),(s1)))", 2, "i takes two or more sets"),
        ("(n,(p,(r1),(s1)),(p,(r1),(s1)))", 2, "n takes one set"),
        ("(p,(p,(r1),(s1)),(s1))", 2, "p takes a relation"),
        ("(i,(s1),(p,(r1),(s1)))", 5, "a set"),
        ("(s1)", 2, "a set"),
        ("(p,(r1),(e1))", 10, "e1 stands in quotes"),
        ("(p,(r1),('s1))", 10, "quote"),
    ],
)
def test_mistakes_are_shown_at_their_column(text: str, column: int, problem: str) -> None:
    with pytest.raises(QueryError, match=f"column {column}: .*{problem}") as raised:
        parse_lisp(text)
    *_, line, caret = str(raised.value).split("\n")
    assert caret.index("^") == column + 1
    assert line == f"  {text}"
