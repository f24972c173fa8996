"""transformer_xl against XLNet, which has Transformer-XL's attention with the same terms."""

import pytest
import torch
from torch import nn
from transformers import XLNetConfig, XLNetModel

from peirce.algebra import Scope
from peirce.parts import Dims, Tokens
from peirce_basics.positions.transformer_xl import TransformerXL

LAYERS, HEADS, SIZE, LENGTH = 2, 3, 4, 7


@pytest.mark.parametrize("share", [False, True])
def test_scores_are_those_of_xlnet(share: bool) -> None:
    torch.manual_seed(0)
    config = XLNetConfig(vocab_size=9, d_model=12, n_layer=LAYERS, n_head=HEADS, d_inner=8)
    theirs = XLNetModel(config).double().eval()
    dims = Dims(layers=LAYERS, unary=12, heads=HEADS, head_size=SIZE, vocabulary=9)
    options = TransformerXL.Options(share_biases=share)
    position = TransformerXL(options, dims).double().eval()
    assert [tuple(p.shape) for p in (position.content, position.position)] == [
        (1 if share else LAYERS, HEADS, SIZE)
    ] * 2
    nn.init.normal_(position.content)
    nn.init.normal_(position.position)
    waves = theirs.relative_positional_encoding(LENGTH, LENGTH, bsz=2).double()
    index = torch.arange(LENGTH).unsqueeze(0)
    for layer, term in enumerate(position.pairs(Tokens({}, None, index, LENGTH))):
        attention, bank = theirs.layer[layer].rel_attn, 0 if share else layer
        attention.r_w_bias.data = position.content[bank]
        attention.r_r_bias.data = position.position[bank]
        query, key = torch.randn(2, 2, LENGTH, HEADS, SIZE, dtype=torch.float64)
        far = torch.einsum(
            "ibh,hnd->ibnd", waves, position.maps[layer].weight.view(HEADS, SIZE, 12).permute(2, 0, 1)
        )
        own = {name: each.transpose(0, 1) for name, each in (("q", query), ("k", key))}
        weights = attention.rel_attn_core(own["q"], own["k"], own["k"], far, output_attentions=True)[1]
        scores = torch.einsum("bxhs,bahs->bxah", query, key) * SIZE**-0.5
        scores = scores + term.score_term(query * SIZE**-0.5, key * SIZE**-0.5, scores, Scope())
        torch.testing.assert_close(scores.softmax(2), weights.permute(2, 0, 1, 3), rtol=1e-5, atol=1e-6)
