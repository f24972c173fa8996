from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from peirce_text.pretraining.batches import Masking, NextTokens

MASK, ORDINARY = 4, np.arange(5, 500)


def masking(**options: float) -> Masking:
    return Masking(mask_id=MASK, ordinary=ORDINARY, **options)  # type: ignore[arg-type]


@given(
    tokens=st.integers(0, 200),
    probability=st.floats(0.01, 0.9),
    most=st.integers(1, 40),
    seed=st.integers(0, 2**32),
)
@settings(deadline=None)
def test_as_many_are_masked_as_the_rule_says(tokens: int, probability: float, most: int, seed: int) -> None:
    rule = masking(probability=probability, most=most)
    ids = np.concatenate([[2], 5 + np.arange(tokens) % 400, [3]])
    masked, places, labels = rule.apply(ids, np.arange(1, tokens + 1), np.random.default_rng(seed))
    assert len(places) == (min(most, max(1, round(probability * tokens))) if tokens else 0)
    assert rule.counts(np.array([tokens])).tolist() == [len(places)]
    assert len(set(places.tolist())) == len(places)
    assert places.tolist() == sorted(places.tolist())
    assert all(1 <= place <= tokens for place in places)
    assert (labels == ids[places]).all()
    untouched = np.setdiff1d(np.arange(len(ids)), places)
    assert (masked[untouched] == ids[untouched]).all()
    assert np.isin(masked[places], [MASK, *ORDINARY]).all()


def test_eight_in_ten_become_the_mask_one_stays_and_one_becomes_any_token() -> None:
    rule, random = masking(), np.random.default_rng(0)
    ids = np.full(130, 7)
    rows = (rule.apply(ids, np.arange(128), random) for _ in range(3000))
    found = np.concatenate([masked[places] for masked, places, _ in rows])
    count = len(found)
    assert count == 3000 * 19
    # four standard deviations of a share of so many
    spread = 4 * np.sqrt(0.8 * 0.2 / count)
    assert abs((found == MASK).mean() - 0.8) < spread
    assert abs((found == 7).mean() - (0.1 + 0.1 / len(ORDINARY))) < spread
    others = found[(found != MASK) & (found != 7)]
    assert set(others.tolist()) <= set(ORDINARY.tolist())
    assert len(set(others.tolist())) == len(ORDINARY) - 1


@given(tokens=st.integers(0, 200))
@settings(deadline=None)
def test_of_a_single_text_each_token_follows_those_before_it(tokens: int) -> None:
    ids = np.concatenate([[2], 5 + np.arange(tokens), [3]])
    row, places, labels = NextTokens().apply(ids, np.arange(1, tokens + 1), np.random.default_rng(0))
    assert row.tolist() == ids.tolist()
    assert places.tolist() == list(range(tokens + 1))
    assert labels.tolist() == [*range(5, 5 + tokens), 3]
    assert NextTokens().counts(np.array([tokens])).tolist() == [len(places)]
