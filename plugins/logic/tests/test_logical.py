"""Hierarchical logical projections."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F

from peirce.errors import InputError
from peirce.parts import Dims, Tokens
from peirce_logic.logical import Logical

DIMS = Dims(layers=1, unary=6, heads=1, head_size=6, feedforward_unary=1, vocabulary=9)


def tokens(ids: torch.Tensor) -> Tokens:
    return Tokens({"logical_ids": ids}, None, torch.arange(ids.shape[2]).unsqueeze(0), ids.shape[2])


@pytest.mark.parametrize("width", [None, 4])
@pytest.mark.parametrize("depth", [1, 3])
def test_levels_are_folded_in_one_after_another_by_one_map(depth: int, width: int | None) -> None:
    torch.manual_seed(0)
    augmenter = Logical(Logical.Options(depth=depth, width=width), DIMS).double()
    ids = torch.randint(35, (2, depth, 5))
    words = torch.randn(2, 5, 6, dtype=torch.float64)
    got = augmenter(words, tokens(ids))
    for b, t in product(range(2), range(5)):
        state = words[b, t]
        for level in range(depth):
            pair = torch.cat([state, augmenter.embedding.weight[ids[b, level, t]]])
            state = F.gelu(augmenter.projection.weight @ pair + augmenter.projection.bias)
        torch.testing.assert_close(got[b, t], words[b, t] + state)


def test_levels_are_a_fixed_dim_of_the_input() -> None:
    augmenter = Logical(Logical.Options(depth=2), DIMS)
    [ids] = augmenter.inputs()
    assert (ids.name, ids.dims, ids.high) == ("logical_ids", ("batch", 2, "length"), 35)
    with pytest.raises(InputError, match=r"3 levels.*depth 2"):
        augmenter(torch.randn(1, 5, 6), tokens(torch.zeros(1, 3, 5, dtype=torch.long)))
