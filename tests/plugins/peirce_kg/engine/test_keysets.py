from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from peirce_kg.engine.keysets import CELLS, Space, sorted_distinct

SPACES = (Space(3, 7), Space(2, CELLS))
"""One whose keys are marked, one whose keys are sorted."""
_keys = st.lists(st.integers(0, 3 * 7 - 1), max_size=30).map(lambda keys: np.array(keys, np.int64))


@given(_keys, _keys)
def test_sets(keys: np.ndarray, others: np.ndarray) -> None:
    for space in SPACES:
        # twice, since marks must not remain
        for _ in range(2):
            assert space.distinct(keys).tolist() == sorted(set(keys.tolist()))
            assert space.among(keys, others).tolist() == [
                key in set(others.tolist()) for key in keys.tolist()
            ]
    assert sorted_distinct(keys).tolist() == sorted(set(keys.tolist()))


def test_everything() -> None:
    assert SPACES[0].everything(np.array([0, 2])).tolist() == [*range(7), *range(14, 21)]
    # many keys of a space are marked, few are sorted; both give the same
    many = np.random.default_rng(0).integers(0, 7 * 3, 1000)
    assert SPACES[0].distinct(many).tolist() == list(range(21))
