"""Optimisation profiles: from the signature, from texts, and which one sizes fit."""

from __future__ import annotations

import re

import pytest
from hand_model import SIGNATURE
from hypothesis import given
from hypothesis import strategies as st

from peirce.errors import InputError
from peirce.parts import Signature, TensorSpec
from peirce_export.tensorrt.profiles import Range, choose, profiles, shapes


def test_defaults_come_from_the_signature() -> None:
    (only,) = profiles(SIGNATURE)
    assert only == {"batch": Range(1, 8, 32), "length": Range(1, 16, 64), "levels": Range(1, 128, 512)}


def test_texts_name_dims_and_a_repeated_dim_begins_the_next_profile() -> None:
    first, second = profiles(SIGNATURE, ["length=8:16:32,levels=2", "batch=1:4:8", "length=32:48:64"])
    assert first == {"batch": Range(1, 4, 8), "length": Range(8, 16, 32), "levels": Range(2, 2, 2)}
    assert second == first | {"length": Range(32, 48, 64)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lenght=1:2:3", "unknown symbolic dim 'lenght' of the inputs. Did you mean 'length'"),
        ("length=1:2", "is not DIM=MIN:OPT:MAX"),
        ("length", "is not DIM=MIN:OPT:MAX"),
        ("length=a:b:c", "is not DIM=MIN:OPT:MAX"),
        ("length=4:2:8", "MIN <= OPT <= MAX"),
        ("length=0:2:8", "sizes must rise from 1"),
        ("length=1:2:65", "takes a length of 64 at most"),
    ],
)
def test_what_is_no_profile_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        profiles(SIGNATURE, [text])


def test_a_sum_of_dims_adds_their_sizes() -> None:
    past = TensorSpec(name="kept", dtype="float", dims=("batch", "past + 1", 4))
    given = TensorSpec(name="before", dtype="float", dims=("batch", "past", 4))
    (only,) = profiles(Signature([given], [past]), ["past=2:5:9", "batch=1:2:3"])
    assert shapes(past, only) == ((1, 3, 4), (2, 6, 4), (3, 10, 4))


sizes = st.integers(1, 64)


@given(st.lists(st.tuples(sizes, sizes, sizes).map(sorted), min_size=1, max_size=4), sizes)
def test_the_chosen_profile_holds_the_size_and_is_the_nearest(ranges: list[list[int]], size: int) -> None:
    found = [{"length": Range(*each)} for each in ranges]
    holding = [i for i, (least, _, most) in enumerate(ranges) if least <= size <= most]
    if not holding:
        with pytest.raises(InputError, match=f"not built for length {size}: its profiles have"):
            choose(found, {"length": size})
        return
    number = choose(found, {"length": size})
    assert number in holding
    assert abs(ranges[number][1] - size) == min(abs(ranges[i][1] - size) for i in holding)
