from __future__ import annotations

import json

import numpy as np
import pytest
from attrs import evolve

from peirce.errors import TaskError
from peirce_kg.encoding.vocabulary import PAD, Vocabulary
from peirce_kg.encoding.writing import KINDS
from peirce_queries.engine.answers import to_ids
from peirce_queries.graphs.graph import from_names
from peirce_queries.languages.language import parse
from peirce_queries.languages.parsing import QueryError

GRAPH = from_names("g", {"train": [("a", "r", "b c"), ("b c", "q", "d")]})
VOCABULARY = Vocabulary.of(GRAPH)


def _encode(text: str) -> tuple[np.ndarray, np.ndarray]:
    return VOCABULARY.encode(*to_ids(parse(text), GRAPH))


def test_tokens_and_kinds_follow_the_efo_text() -> None:
    ids, kinds = _encode('(r(a,e1))&(!(q(e1,f)))|(r("b c",f))')
    # the conjunction binds tighter, so it stands in parentheses of its own
    text = "( ( r ( a e1 ) ) & ( ! ( q ( e1 f ) ) ) ) | ( r ( b c f ) )"
    assert " ".join(VOCABULARY.decode(ids[0])) == text
    of_kinds = {
        "parenthesis": "()", "conjunction": "&", "disjunction": "|", "negation": "!", "relation": "rq",
        "entity": ("a", "b c", "e1", "f"),
    }  # fmt: skip
    found = zip(VOCABULARY.decode(ids[0]), (KINDS[kind] for kind in kinds[0]), strict=True)
    assert dict(found) == {token: kind for kind, tokens in of_kinds.items() for token in tokens}


def _words(text: str, vocabulary: Vocabulary) -> str:
    ids, _ = vocabulary.encode(*to_ids(parse(text), GRAPH))
    return " ".join(vocabulary.decode(ids[0]))


def test_the_lisp_like_text() -> None:
    lisp = Vocabulary.of(GRAPH, "lisp")
    assert _words("(r(a,e1))&(!(q(e1,f)))&(q(d,f))", VOCABULARY).startswith("( r ( a e1 ) ) & ( ! (")
    text = "(r(a,e1))&(q(e1,f))&(!(q(d,f)))"
    assert _words(text, lisp) == "( i ( p ( q ) ( p ( r ) ( a ) ) ) ( n ( p ( q ) ( d ) ) ) )"
    assert _words("(r(a,f))|(q(d,f))", lisp) == "( u ( p ( r ) ( a ) ) ( p ( q ) ( d ) ) )"
    _, kinds = lisp.encode(*to_ids(parse("(r(a,f))&(!(q(d,f)))"), GRAPH))
    assert [KINDS[k] for k in kinds[0][[1, 3, 12]]] == ["conjunction", "special", "negation"]
    assert len(set(lisp.decode(range(len(lisp))))) == len(lisp)
    with pytest.raises(QueryError, match="Lisp-like"):
        _words("(r(a,f))&(q(e1,f))", lisp)
    assert Vocabulary.from_bytes(lisp.to_bytes()) == lisp
    sqe = Vocabulary.of(GRAPH, "sqe")
    assert _words(text, sqe) == "( i ( p q ( p r ( a ) ) ) ( n ( p q ( d ) ) ) )"
    assert Vocabulary.from_bytes(sqe.to_bytes()) == sqe
    assert lisp != VOCABULARY


def test_reversed_queries() -> None:
    turned = evolve(VOCABULARY, reversed_=True)
    assert _words("(r(a,e1))&(q(e1,f))", turned) == "( q ( e1 f ) ) & ( r ( a e1 ) )"
    assert Vocabulary.from_bytes(turned.to_bytes()) == VOCABULARY


def test_ids_are_contiguous() -> None:
    assert len(VOCABULARY) == VOCABULARY.first_relation + 2
    assert VOCABULARY.first_relation == VOCABULARY.first_entity + 3
    assert len(set(VOCABULARY.decode(range(len(VOCABULARY))))) == len(VOCABULARY)
    assert VOCABULARY.decode([PAD, VOCABULARY.free, VOCABULARY.first_entity]) == ["[PAD]", "f", "a"]


def test_file_round_trip_and_damage() -> None:
    data = VOCABULARY.to_bytes()
    assert Vocabulary.from_bytes(data) == VOCABULARY
    other = [json.dumps({**json.loads(data), **c}).encode() for c in ({"symbols": ["?"]}, {"format": 2})]
    for broken in (data[:50], b"[]", b"{}", b"\xff", *other, data.replace(b'"efo"', b'"lips"')):
        with pytest.raises(TaskError, match=r"vocabulary\.json|format 2|unknown syntax 'lips'"):
            Vocabulary.from_bytes(broken)
