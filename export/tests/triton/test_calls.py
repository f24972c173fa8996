"""Questions as requests bring them: what is wrong with one is said by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from peirce.errors import InputError
from peirce_export import Field
from peirce_export.questions import build_question
from peirce_export.triton.calls import values_of

FIELDS = (
    Field(name="query", kind="text", meaning="A query."),
    Field(name="top", kind="int64", required=False),
    Field(name="options", kind="text", many=True, required=False),
)
QUERY = np.array([b"isa(a,f)"], np.object_)


def test_a_question_is_read() -> None:
    given = {"query": QUERY, "options": np.array(["é".encode(), b"b"], np.object_)}
    assert build_question(FIELDS, values_of(FIELDS, given)) == {"query": "isa(a,f)", "options": ["é", "b"]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "the question lacks query; give query. A query."),
        ({"query": np.array([5])}, "input 'query' is int64, and must be text"),
        ({"query": QUERY, "top": np.array([2.5], np.float32)}, "input 'top' is float32, and must be int64"),
        ({"query": QUERY, "top": np.array([], np.int64)}, "input 'top' has no value"),
        ({"query": np.repeat(QUERY, 10_000)}, "input 'query' has 10,000 values; give one"),
        ({"query": np.array([b"\xff"], np.object_)}, "input 'query' is not UTF-8"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        build_question(FIELDS, values_of(FIELDS, given))
    assert str(error.value).startswith(said)
