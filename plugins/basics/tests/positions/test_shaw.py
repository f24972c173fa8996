"""Shaw's relative positions, and what they are in FOLNet's algebra."""

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
