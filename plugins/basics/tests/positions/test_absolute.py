"""Absolute positions: a table by position, or waves."""

import math

import pytest
import torch

from peirce.errors import InputError
from peirce.parts import Dims, Tokens
from peirce_basics.positions.absolute import Absolute

DIMS = Dims(layers=1, unary=5, heads=1, head_size=5, feedforward_unary=1, vocabulary=9, max_length=8)


def tokens(index: list[list[int]]) -> Tokens:
    return Tokens({}, None, torch.tensor(index), len(index[0]))


def test_a_learned_position_is_a_row_of_the_table() -> None:
    position = Absolute(Absolute.Options(), DIMS)
    assert {name: tuple(p.shape) for name, p in position.state_dict().items()} == {"table.weight": (8, 5)}
    assert position.table is not None
    torch.testing.assert_close(
        position.unary(tokens([[0, 1, 7]])), position.table.weight[[0, 1, 7]].unsqueeze(0)
    )


def test_padding_may_be_longer_than_the_table_and_real_tokens_may_not() -> None:
    position = Absolute(Absolute.Options(), DIMS)
    assert position.unary(tokens([[*range(8), 7, 7]])).shape == (1, 10, 5)
    with pytest.raises(InputError, match=r"9 tokens is longer than the 8 learned positions.*sinusoidal"):
        position.unary(tokens([[*range(9)]]))


def test_waves_follow_the_equation_at_any_length_and_width() -> None:
    position = Absolute(Absolute.Options(kind="sinusoidal"), DIMS).double()
    assert position.state_dict() == {}
    got = position.unary(tokens([[0, 3, 4000]]))
    for place, t in enumerate((0, 3, 4000)):
        for channel in range(5):
            angle = t / 10000 ** (2 * (channel // 2) / 5)
            wanted = math.cos(angle) if channel % 2 else math.sin(angle)
            assert got[0, place, channel].item() == pytest.approx(wanted, abs=1e-11)


def test_waves_are_computed_precisely_and_come_in_the_models_dtype() -> None:
    exact = Absolute(Absolute.Options(kind="sinusoidal"), DIMS).double().unary(tokens([[4001]]))
    half = Absolute(Absolute.Options(kind="sinusoidal"), DIMS).to(torch.bfloat16).unary(tokens([[4001]]))
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.double(), exact, rtol=0, atol=torch.finfo(torch.bfloat16).eps)
