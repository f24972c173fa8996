"""Windows of a context, the tokens of an answer, and the best spans."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peirce_text.squad.windows import best_windows, candidates, token_span, windows


def test_windows_overlap_and_end_with_the_context() -> None:
    assert windows(10, 4, 3) == [(0, 4), (3, 7), (6, 10)]
    assert windows(11, 4, 3) == [(0, 4), (3, 7), (6, 10), (9, 11)]
    assert windows(4, 4, 3) == [(0, 4)]
    assert windows(0, 4, 3) == [(0, 0)]
    assert windows(9, 4, 100) == [(0, 4), (4, 8), (8, 9)]


@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 25))
def test_no_token_is_left_out(count: int, room: int, stride: int) -> None:
    parts = windows(count, room, stride)
    assert {token for start, end in parts for token in range(start, end)} == set(range(count))
    assert all(end - start <= room for start, end in parts)
    for token, index in enumerate(best_windows(parts, count)):
        assert parts[index][0] <= token < parts[index][1]


def test_a_token_is_judged_where_most_stands_around_it() -> None:
    # Tokens 0 to 6 in (0, 5) and (3, 7): token 3 has one token on its right and none on its left, and so has 4.
    assert best_windows([(0, 5), (3, 7)], 7).tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_an_answer_is_the_tokens_that_hold_its_characters() -> None:
    offsets = np.array([(0, 3), (4, 7), (7, 9), (10, 13)])
    assert token_span((4, 7), offsets) == (1, 1)
    assert token_span((5, 8), offsets) == (1, 2)  # within tokens at both ends
    assert token_span((3, 4), offsets) is None


def test_spans_are_in_order_short_enough_and_judged_once() -> None:
    logits = np.array([[5.0, 4.0], [1.0, 3.0], [4.0, 0.0], [0.0, 2.0]], dtype=np.float32)
    owner = np.array([9, 9, 0, 0, 1, 0])
    found = candidates(logits, (2, 6), owner, 0, n_best=4, longest=2)
    best = sorted(((c.score, c.first, c.last) for c in found), reverse=True)
    # Token 4 belongs to another window; from token 2, the longest reaches token 3; token 5 stands alone.
    assert best == [(9.0, 2, 2), (8.0, 2, 3), (4.0, 3, 3), (2.0, 5, 5), (1.0, 3, 4)]
    few = candidates(logits, (2, 6), owner, 0, n_best=1, longest=2)
    assert [(c.first, c.last) for c in few] == [(2, 2)]
    assert found[0].score == pytest.approx(9.0)
