"""Propositions: exact decisions, heuristics as published, renaming, and what is refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peirce.errors import TaskError
from peirce_tpru.entailment.files import find_files, guess, read_pairs
from peirce_tpru.entailment.formulas import entails, literals, rename_in_order, variables

FORMULAS = st.recursive(
    st.sampled_from("pqrs"),
    lambda inner: st.one_of(
        st.builds("~({})".format, inner), st.builds("({}{}{})".format, inner, st.sampled_from("&|>"), inner)
    ),
    max_leaves=8,
)


def value(text: str, world: dict[str, bool]) -> bool:
    """By Python's own operators."""
    return bool(eval(text.replace("~", "1-").replace(">", "<="), {}, world))


@given(FORMULAS, FORMULAS)
def test_a_decision_is_that_of_every_world(one: str, other: str) -> None:
    letters = variables(one + other)
    worlds = [dict(zip(letters, bits, strict=True)) for bits in product((False, True), repeat=len(letters))]
    assert entails(one, other) == all(value(one, w) <= value(other, w) for w in worlds)


def test_published_labels_are_decided_again(shared: Path) -> None:
    files = find_files(shared / "data" / "logical-entailment")
    assert len(files) == 6
    for path in files.values():
        for pair in read_pairs(path):
            assert entails(pair.one, pair.other) == pair.entails


def test_the_heuristics_are_those_of_the_published_files(shared: Path) -> None:
    for pair in read_pairs(find_files(shared / "data" / "logical-entailment")["validate"])[:500]:
        assert guess(pair.one, pair.other) == pair.guesses


def test_literals_are_those_of_the_negation_normal_form() -> None:
    assert literals("~((p>~(q)))") == {"p", "q"}
    assert literals("(p>(~(q)|r))") == {"~p", "~q", "r"}


def test_names_of_variables_do_not_count() -> None:
    assert rename_in_order("(q&p)", "p") == rename_in_order("(x&a)", "a") == "(a&b),b"
    assert rename_in_order("(q&p)", "p") != rename_in_order("(q&p)", "q")


@pytest.mark.parametrize("text", ["", "(p", "p)", "(p&)", "&p", "pq", "~", "(p&q", "()", "p&1"])
def test_what_is_no_proposition_is_refused(text: str) -> None:
    with pytest.raises(TaskError, match="not a proposition"):
        entails(text, "p")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("p,q,1", "line 1: a line is A,B,E,H1,H2,H3"),
        ("p,q,2,0,0,0", "the last four 0 or 1"),
        ("(p\u00e9q),q,1,0,0,0", "'\\(p\u00e9q\\)' is not a proposition"),
        (f"p,{'(' * 90}p{')' * 90},1,0,0,0", "is not a proposition"),
        ("", "has no pairs"),
    ],
)
def test_files_in_another_format_are_named(line: str, words: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "train.txt").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(TaskError, match=words):
        read_pairs(tmp_path / "train.txt")
    with pytest.raises(TaskError, match="has no files of pairs"):
        find_files(empty)
    (tmp_path / "train.txt.gz").touch()
    with pytest.raises(TaskError, match=r"holds train\.txt and train\.txt\.gz; remove one"):
        find_files(tmp_path)
