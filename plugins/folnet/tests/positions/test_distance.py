"""dist_Delta: ids as published checkpoints number them, and what cannot work."""

import pytest
import torch

from peirce.parts import Dims, Tokens
from peirce_folnet.positions.distance import Distance

DIMS = Dims(layers=1, unary=4, binary=3, heads=1, head_size=4, feedforward_unary=1, vocabulary=9)


def test_without_types_all_tokens_are_one_sequence_and_padding_is_not_counted() -> None:
    position = Distance(Distance.Options(clip=3), DIMS)
    left = Tokens({}, torch.tensor([[False, True, True, True]]), torch.tensor([[0, 0, 1, 2]]), 4)
    plain = Tokens({}, None, torch.arange(3).unsqueeze(0), 3)
    assert position.ids(plain).tolist() == [[[0, 1, 2], [5, 0, 1], [4, 5, 0]]]
    torch.testing.assert_close(position.binary(left)[:, 1:, 1:], position.binary(plain))


def test_what_cannot_work_is_said() -> None:
    with pytest.raises(ValueError, match="clip"):
        Distance.Options(clip=1)
    flat = Dims(layers=1, unary=4, heads=1, head_size=4, feedforward_unary=1, vocabulary=9)
    assert "binary atoms" in (Distance.check(Distance.Options(), flat, "bidirectional") or "")
    assert Distance.check(Distance.Options(), DIMS, "bidirectional") is None
