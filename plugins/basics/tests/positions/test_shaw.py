"""Shaw's relative positions, and what they are in FOLNet's algebra."""

import pytest
import torch

from peirce.algebra import Scope
from peirce.kernels import pair_scores as scores
from peirce.kernels import pair_values as mix
from peirce.parts import Dims, Tokens
from peirce_basics.positions.shaw import Shaw
from peirce_folnet.operators.mu import Mu
from peirce_folnet.operators.prod import Prod

DIMS = Dims(layers=3, unary=8, binary=4, heads=2, head_size=4, feedforward_unary=1, vocabulary=9)


def plain(length: int) -> Tokens:
    return Tokens({}, None, torch.arange(length).unsqueeze(0), length)


@pytest.mark.parametrize("share_heads", [True, False])
@pytest.mark.parametrize("share_layers", [True, False])
@pytest.mark.parametrize("terms", ["key", "key+value"])
@pytest.mark.parametrize("clip", [2, 50])
def test_each_pair_has_the_vector_of_its_clipped_distance(
    terms: str, share_heads: bool, share_layers: bool, clip: int
) -> None:
    torch.manual_seed(0)
    options = Shaw.Options(terms=terms, clip=clip, share_heads=share_heads, share_layers=share_layers)
    position = Shaw(options, DIMS).double()
    width = 4 if share_heads else 8
    assert {tuple(p.shape) for p in position.parameters()} == {(2 * clip + 1, width)}
    assert len(list(position.parameters())) == (1 if share_layers else 3) * (1 if terms == "key" else 2)
    biases = position.pairs(plain(6))
    assert len(biases) == 3
    query = torch.randn(2, 6, 2, 4, dtype=torch.float64)
    weights = torch.rand(2, 6, 6, 2, dtype=torch.float64)
    for layer, bias in enumerate(biases):
        bank = 0 if share_layers else layer
        keys = position.keys[bank].weight.view(2 * clip + 1, -1, 4).expand(-1, 2, -1)
        got = scores(query, bias)
        summed = torch.zeros(2, 6, 2, 4, dtype=torch.float64)
        for x in range(6):
            for y in range(6):
                place = max(-clip, min(clip, y - x)) + clip
                torch.testing.assert_close(got[:, x, y], (query[:, x] * keys[place]).sum(2))
                if terms == "key+value":
                    values = position.values[bank].weight.view(2 * clip + 1, -1, 4).expand(-1, 2, -1)
                    summed[:, x] += weights[:, x, y].unsqueeze(2) * values[place]
        if terms == "key+value":
            torch.testing.assert_close(mix(weights, bias), summed)
        else:
            assert bias.value is None


def test_its_terms_are_prod_and_mu_with_static_premises() -> None:
    """Appendix E of FOLNet: a relation that depends on the distance alone makes prod and mu the two terms."""
    torch.manual_seed(0)
    position = Shaw(Shaw.Options(clip=3), DIMS).double()
    bias = position.pairs(plain(7))[1]
    places = (torch.arange(7).unsqueeze(0) - torch.arange(7).unsqueeze(1)).clamp(-3, 3) + 3
    static_keys, static_values = (tables[1].weight[places] for tables in (position.keys, position.values))
    batch = (5, -1, -1, -1)
    scope = Scope.padding(torch.ones(5, 7, dtype=torch.bool))

    query = torch.randn(5, 7, 2, 4, dtype=torch.float64)
    prod = Prod(Prod.Options(), DIMS).infer(query, static_keys.expand(batch), scope)
    torch.testing.assert_close(scores(query, bias), prod, rtol=1e-12, atol=1e-12)

    weights = torch.randn(5, 7, 7, 2, dtype=torch.float64).softmax(2)
    mu = Mu(Mu.Options(), DIMS).infer(weights, static_values.expand(batch), scope)
    torch.testing.assert_close(mix(weights, bias), mu, rtol=1e-12, atol=1e-12)
