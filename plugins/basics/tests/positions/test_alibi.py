"""alibi against Bloom, which adds slopes times the positions of keys: what a row's softmax sees is the same."""

import pytest
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

from peirce.algebra import Scope
from peirce.parts import Dims, Tokens
from peirce_basics.positions.alibi import Alibi

MASK = torch.tensor([[1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 0, 1]]).bool()


@pytest.mark.parametrize("heads", [1, 2, 3, 7, 8, 12, 17])
def test_attention_is_that_of_bloom(heads: int) -> None:
    position = Alibi(None, Dims(layers=2, unary=heads, heads=heads, head_size=1, vocabulary=9))
    tokens = Tokens({}, MASK, (MASK.long().cumsum(1) - 1).clamp_min(0), 7)
    one, two = position.pairs(tokens)
    assert one is two
    theirs = build_alibi_tensor(MASK.long(), heads, torch.float32).view(3, heads, 1, 7).permute(0, 2, 3, 1)
    scope = Scope.padding(MASK) & Scope.past(7)
    scores = torch.randn(3, 7, 7, heads, generator=torch.Generator().manual_seed(0))
    query = scores.new_zeros(3, 7, heads, 1)
    ours = one.score_term(query, query, scores, scope)
    assert ours is not None
    torch.testing.assert_close(
        scope.softmax(scores + ours), scope.softmax(scores + theirs), rtol=1e-5, atol=1e-6
    )
