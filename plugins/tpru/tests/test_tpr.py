"""Tensor product representations of single tokens."""

import pytest
import torch

from peirce.parts import Dims, Tokens
from peirce_tpru.tpr import TensorProduct

DIMS = Dims(layers=1, unary=6, heads=1, head_size=6, feedforward_unary=1, vocabulary=9)
TOKENS = Tokens({}, None, torch.arange(5).unsqueeze(0), 5)


def test_fillers_are_a_distribution_or_zero() -> None:
    augmenter = TensorProduct(TensorProduct.Options(roles=7), DIMS)
    x = torch.randn(2, 5, 6)
    torch.testing.assert_close(augmenter.fillers(x).sum(-1), torch.ones(2, 5))
    torch.nn.init.constant_(augmenter.shift, -1e3)
    assert augmenter.fillers(x).eq(0).all()
    torch.testing.assert_close(augmenter(x, TOKENS), x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_large_fillers_do_not_overflow_in_half_precision(dtype: torch.dtype) -> None:
    augmenter = TensorProduct(TensorProduct.Options(roles=7), DIMS).to(dtype)
    torch.nn.init.constant_(augmenter.shift, 1000.0)
    got = augmenter(torch.randn(2, 5, 6, dtype=dtype), TOKENS)
    assert got.dtype == dtype
    assert got.isfinite().all()
