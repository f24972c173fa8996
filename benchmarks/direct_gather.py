"""Pair biases by a direct gather: the peer of `peirce.kernels.pair_bias`, for its benchmark and its tests.

It looks up a whole [b, x, y, g, s] tensor, which Peirce never holds.
"""

from __future__ import annotations

from torch import Tensor

from peirce.kernels import PairBias


def direct_vectors(table: Tensor, bias: PairBias) -> Tensor:
    """[b or 1, x, y, g, s] (or [b or 1, x, y, h] for scores), whole."""
    if bias.rows is None:
        return table[0][bias.ids]
    return table[bias.rows.unsqueeze(2), bias.ids]


def direct_scores(query: Tensor, bias: PairBias) -> Tensor:
    """What `peirce.kernels.pair_scores` computes, by a direct gather."""
    total = query.new_zeros(())
    if bias.key is not None:
        vectors = direct_vectors(bias.key, bias)
        total = (
            (query.unsqueeze(2) * vectors).sum(4) if vectors.shape[3] > 1 else vectors.squeeze(3) @ query.mT
        )
    if bias.score is not None:
        total = total + direct_vectors(bias.score, bias)
    return total.expand(query.shape[0], -1, -1, -1)


def direct_mix(weights: Tensor, bias: PairBias) -> Tensor:
    """What `peirce.kernels.pair_values` computes, by a direct gather."""
    assert bias.value is not None
    vectors = direct_vectors(bias.value, bias)
    if vectors.shape[3] == 1:
        return weights.mT @ vectors.squeeze(3)
    return (weights.unsqueeze(4) * vectors).sum(2)
