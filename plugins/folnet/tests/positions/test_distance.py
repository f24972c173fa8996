"""dist_Delta: its five cases and their ids."""

import pytest
import torch

from peirce.parts import Dims, Tokens
from peirce_folnet.positions.distance import Distance

DIMS = Dims(layers=1, unary=4, binary=3, heads=1, head_size=4, feedforward_unary=1, vocabulary=9)


def expected(x: int, y: int, types: list[int], clip: int, cls: bool) -> int:
    """The cases in the order of the paper, numbered as published checkpoints are."""
    if cls and x == 0 and y > 0:
        return 2 * clip
    if cls and x > 0 and y == 0:
        return 2 * clip + 1
    if types[x] != types[y]:
        return clip
    return min(y - x, clip - 1) if y >= x else 2 * clip + max(y - x, 1 - clip)


@pytest.mark.parametrize("cls", [False, True])
@pytest.mark.parametrize("clip", [2, 3, 64])
def test_the_five_cases(clip: int, cls: bool) -> None:
    types = [0, 0, 0, 0, 1, 1, 1]
    index = torch.arange(7).unsqueeze(0)
    position = Distance(Distance.Options(clip=clip, cls=cls), DIMS)
    tokens = Tokens({"token_type_ids": torch.tensor([types])}, None, index, 7)
    wanted = [[expected(x, y, types, clip, cls) for y in range(7)] for x in range(7)]
    assert position.ids(tokens).tolist() == [wanted]
    assert position.table.weight.shape == (2 * clip + 2, 3)
    torch.testing.assert_close(position.binary(tokens)[0], position.table.weight[torch.tensor(wanted)])


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
