"""Random names, formulas and set expressions, as strategies of hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from peirce_queries.languages.language import FREE, Atom, Constant, Variable
from peirce_queries.languages.lisp import Complement, Intersection, Projection, SetExpression, Union
from peirce_testing.strategies import queries

names = st.text(min_size=1, max_size=8).filter(
    lambda name: name.encode("utf-8", "ignore") == name.encode("utf-8", "replace")
)
"""Any names that text files can hold."""
terms = st.one_of(st.just(FREE), st.integers(1, 12).map(lambda i: Variable(f"e{i}")), names.map(Constant))


formulas = queries(st.builds(Atom, names, terms, terms), 6)


def expressions(
    relations: st.SearchStrategy[str], entities: st.SearchStrategy[str]
) -> st.SearchStrategy[SetExpression]:
    """Random set expressions over names."""

    def grow(inner: st.SearchStrategy[SetExpression]) -> st.SearchStrategy[SetExpression]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(
            st.builds(Projection, relations, inner),
            st.builds(Intersection, several),
            st.builds(Union, several),
            st.builds(Complement, inner),
        )

    return st.recursive(st.builds(Projection, relations, entities.map(Constant)), grow, max_leaves=4)
