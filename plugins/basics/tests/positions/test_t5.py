"""T5's buckets of distances."""

import torch

from peirce.parts import Dims, Tokens
from peirce_basics.positions.t5 import T5

DIMS = Dims(layers=2, unary=8, heads=2, head_size=4, feedforward_unary=1, vocabulary=9)


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
