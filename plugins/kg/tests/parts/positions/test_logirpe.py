"""TEGA's logic-aware relative positions."""

import pytest
import torch

from peirce.kernels import pair_scores as scores
from peirce.kernels import pair_values as mix
from peirce.parts import Dims, Tokens
from peirce_kg.parts.positions.logirpe import LogiRPE

DIMS = Dims(layers=2, unary=8, heads=2, head_size=4, feedforward_unary=1, vocabulary=9)


def tokens(kinds: torch.Tensor) -> Tokens:
    length = kinds.shape[1]
    return Tokens({"token_kinds": kinds}, None, torch.arange(length).unsqueeze(0), length)


@pytest.mark.parametrize("share_heads", [True, False])
@pytest.mark.parametrize("share_layers", [True, False])
@pytest.mark.parametrize(("furthest", "length"), [(2, 6), (20, 6)])
def test_vectors_of_kinds_and_distances(
    share_heads: bool, share_layers: bool, furthest: int, length: int
) -> None:
    torch.manual_seed(0)
    options = LogiRPE.Options(
        kinds=3, max_distance=furthest, share_heads=share_heads, share_layers=share_layers
    )
    position = LogiRPE(options, DIMS).double()
    kinds = torch.randint(3, (2, length))
    query = torch.randn(2, length, 2, 4, dtype=torch.float64)
    weights = torch.rand(2, length, length, 2, dtype=torch.float64)
    biases = position.pairs(tokens(kinds))
    assert len(biases) == 2
    for layer, bias in enumerate(biases):
        bank = 0 if share_layers else layer
        shape = (3, 3, furthest + 1, -1, 4)
        keys = position.keys[bank].weight.view(shape).expand(-1, -1, -1, 2, -1)
        values = position.values[bank].weight.view(shape).expand(-1, -1, -1, 2, -1)
        got = scores(query, bias)
        summed = torch.zeros(2, length, 2, 4, dtype=torch.float64)
        for b in range(2):
            for x in range(length):
                for y in range(length):
                    place = (kinds[b, x], kinds[b, y], min(abs(x - y), furthest))
                    torch.testing.assert_close(got[b, x, y], (query[b, x] * keys[place]).sum(1))
                    summed[b, x] += weights[b, x, y].unsqueeze(1) * values[place]
        torch.testing.assert_close(mix(weights, bias), summed)


def test_the_key_term_alone_has_one_bank() -> None:
    position = LogiRPE(LogiRPE.Options(terms="key"), DIMS)
    assert position.pairs(tokens(torch.zeros(1, 4, dtype=torch.long)))[0].value is None
    assert {n: tuple(p.shape) for n, p in position.state_dict().items()} == {"keys.0.weight": (7 * 7 * 33, 8)}
