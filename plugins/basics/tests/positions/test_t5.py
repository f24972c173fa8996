"""T5's buckets of distances."""

import math

import pytest
import torch

from peirce.kernels import pair_scores as scores
from peirce.parts import Dims, Tokens
from peirce_basics.positions.t5 import T5

DIMS = Dims(layers=2, unary=8, heads=2, head_size=4, feedforward_unary=1, vocabulary=9)


def bucket(offset: int, count: int, furthest: int, both_ways: bool) -> int:
    """The published rule, step by step; a hair is added so that the logarithm of a power is a whole number."""
    first, distance = 0, max(-offset, 0)
    if both_ways:
        count //= 2
        first, distance = (count if offset > 0 else 0), abs(offset)
    exact = count // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(furthest / exact) + 1e-9
    return first + min(exact + int(share * (count - exact)), count - 1)


@pytest.mark.parametrize(("count", "furthest"), [(32, 128), (8, 20), (4, 3)])
@pytest.mark.parametrize("both_ways", [True, False])
def test_every_pair_has_the_number_of_its_bucket(count: int, furthest: int, both_ways: bool) -> None:
    options = T5.Options(num_buckets=count, max_distance=furthest, bidirectional=both_ways)
    assert T5.check(options, DIMS, "bidirectional") is None
    position = T5(options, DIMS)
    assert {name: tuple(p.shape) for name, p in position.state_dict().items()} == {"table.weight": (count, 2)}
    length = 150
    one, two = position.pairs(Tokens({}, None, torch.arange(length).unsqueeze(0), length))
    assert one is two
    wanted = torch.tensor(
        [[bucket(y - x, count, furthest, both_ways) for y in range(length)] for x in range(length)]
    )
    torch.testing.assert_close(one.ids[0], wanted)
    got = scores(torch.zeros(3, length, 2, 4), one)
    torch.testing.assert_close(got, position.table.weight[wanted].expand(3, -1, -1, -1))


def test_the_published_buckets_of_some_distances() -> None:
    """As the published code with its defaults: 8 exact buckets each way, the last from a distance of 91 on."""
    position = T5(T5.Options(), DIMS)
    index = torch.tensor([[0, 7, 8, 11, 12, 16, 32, 64, 90, 91, 128, 1000]])
    [ids] = position.pairs(Tokens({}, None, index, 12))[0].ids
    assert ids[0].tolist() == [0, 23, 24, 24, 25, 26, 28, 30, 30, 31, 31, 31]
    assert ids[:, 0].tolist() == [0, 7, 8, 8, 9, 10, 12, 14, 14, 15, 15, 15]


def test_buckets_that_cannot_be_divided_are_refused() -> None:
    assert "even number" in (T5.check(T5.Options(num_buckets=7), DIMS, "bidirectional") or "")
    assert "raise it" in (T5.check(T5.Options(num_buckets=32, max_distance=8), DIMS, "bidirectional") or "")
    assert T5.check(T5.Options(num_buckets=7, bidirectional=False), DIMS, "bidirectional") is None
