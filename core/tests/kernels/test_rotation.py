"""Rotations turn pairs of channels as complex numbers are turned, in the dtype of the channels."""

import pytest
import torch

from peirce.kernels import Rotation, rotate


def angles(batch: int) -> torch.Tensor:
    return torch.randn(batch, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("pairing", ["halves", "interleaved"])
@pytest.mark.parametrize("size", [6, 9])
@pytest.mark.parametrize("batch", [1, 2])
def test_pairs_of_channels_are_complex_numbers(pairing: str, size: int, batch: int) -> None:
    given = torch.randn(2, 5, 4, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    angle = angles(batch)
    result = Rotation(angle.cos(), angle.sin(), pairing).turn(given)  # type: ignore[arg-type]
    first, second = (slice(0, 3), slice(3, 6)) if pairing == "halves" else (slice(0, 6, 2), slice(1, 6, 2))
    wanted = torch.complex(given[..., first], given[..., second]) * torch.polar(
        torch.ones(()).double(), angle
    ).unsqueeze(2)
    torch.testing.assert_close(result[..., first], wanted.real)
    torch.testing.assert_close(result[..., second], wanted.imag)
    torch.testing.assert_close(result[..., 6:], given[..., 6:], rtol=0, atol=0)


def test_narrow_channels_are_turned_in_single_precision() -> None:
    given = torch.randn(1, 5, 2, 6, generator=torch.Generator().manual_seed(0)).bfloat16()
    angle = angles(1).float()
    turn = Rotation(angle.cos(), angle.sin())
    assert turn.turn(given).dtype == torch.bfloat16
    torch.testing.assert_close(turn.turn(given), turn.turn(given.float()).bfloat16(), rtol=0, atol=0)


def test_more_pairs_than_a_head_has_are_refused() -> None:
    with pytest.raises(ValueError, match="a rotation of 3 pairs turns 6 channels, and a head has 4"):
        Rotation(angles(1), angles(1)).turn(torch.zeros(1, 5, 2, 4))


def test_rotations_among_terms_are_made_one_after_the_other() -> None:
    given, angle = torch.randn(1, 5, 2, 6, dtype=torch.float64), angles(1)
    turn, twice = Rotation(angle.cos(), angle.sin()), Rotation((2 * angle).cos(), (2 * angle).sin())
    torch.testing.assert_close(rotate(given, [turn, object(), turn]), rotate(given, [twice]))
    assert rotate(given, [object()]) is given
