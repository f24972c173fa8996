"""Scopes: what may be seen, empty rows, and softmaxes that know nothing of the future."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from peirce.algebra import Scope
from peirce.kernels import weigh
from peirce.kernels.weighing import CAUSAL_BLOCK


def literal_weigh(logits: torch.Tensor, values: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """The definition of `Scope.weigh`, row by row. logits [b,a,g,n], values [b,x,a,g], pairs [b,x,a]."""
    rows = []
    for x in range(values.shape[1]):
        seen = pairs[:, x, :, None, None]
        weights = logits.masked_fill(~seen, -torch.inf).softmax(1).nan_to_num(0.0)
        rows.append((weights * values[:, x].unsqueeze(-1)).sum(1))
    return torch.stack(rows, 1)


@given(
    kind=st.sampled_from(["padding", "causal", "causal padding", "prefix", "relation"]),
    length=st.integers(1, 2 * CAUSAL_BLOCK + 3),
    spread=st.sampled_from([1.0, 1e3, 1e5]),
    seed=st.integers(0, 99),
)
def test_weigh_is_its_definition(kind: str, length: int, spread: float, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    batch, groups, inner = 2, 2, 3
    logits = torch.randn(batch, length, groups, inner, generator=random, dtype=torch.float64) * spread
    tokens = torch.rand(batch, length, generator=random) > 0.3
    index = (tokens.long().cumsum(1) - 1).clamp_min(0)
    scope = {
        "padding": lambda: Scope.padding(tokens),
        "causal": lambda: Scope.past(length),
        "causal padding": lambda: Scope.past(length) & Scope.padding(tokens),
        "prefix": lambda: Scope.prefix(torch.tensor([1, 2]), index) & Scope.padding(tokens),
        "relation": lambda: Scope.relation(torch.rand(batch, length, length, generator=random) > 0.5),
    }[kind]()
    assert scope.causal == ("causal" in kind)
    values = scope.zero_binary(
        torch.randn(batch, length, length, groups, generator=random, dtype=torch.float64)
    )
    assert scope.pairs is not None
    pairs = scope.pairs.expand(batch, -1, -1)
    expected = literal_weigh(logits, values, pairs)
    got = weigh(logits.requires_grad_(), values, scope)
    assert torch.allclose(got, expected, rtol=1e-9, atol=1e-9)
    got.sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_causal_weights_do_not_round_with_the_future() -> None:
    logits = torch.zeros(1, 40, 1, 1)
    values = torch.randn(1, 40, 40, 1, generator=torch.Generator().manual_seed(0)).tril()
    values = Scope.past(40).zero_binary(values)
    calm = weigh(logits, values, Scope.past(40))
    logits[:, 30:] = 1e6
    stormy = weigh(logits, values, Scope.past(40))
    assert torch.equal(calm[:, :30], stormy[:, :30])
    assert stormy.isfinite().all()


def test_scopes_combine() -> None:
    tokens = torch.tensor([[False, True, True]])
    both = Scope.padding(tokens) & Scope.past(3)
    assert both.pairs is not None
    assert both.pairs[0].tolist() == [[False] * 3, [False, True, False], [False, True, True]]
    assert both.causal
    assert not both.uniform
    assert (Scope() & Scope.padding(None)).pairs is None
    relation = Scope.relation(torch.eye(3, dtype=torch.bool).unsqueeze(0))
    assert not (both & relation).causal


def test_prefix_counts_real_tokens() -> None:
    tokens = torch.tensor([[False, True, True, True]])
    index = (tokens.long().cumsum(1) - 1).clamp_min(0)
    scope = Scope.prefix(torch.tensor([2]), index) & Scope.padding(tokens)
    assert scope.pairs is not None
    assert scope.pairs[0, 1].tolist() == [False, True, True, False]
    assert scope.pairs[0, 3].tolist() == [False, True, True, True]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_an_empty_row_is_zero_in_every_dtype(dtype: torch.dtype) -> None:
    scope = Scope.padding(torch.tensor([[True, True, False]]))
    logits = torch.full((1, 3, 3, 2), 1e4, dtype=dtype, requires_grad=True)
    weights = scope.softmax(logits)
    assert weights.dtype == dtype
    assert weights[:, 2].eq(0).all()
    assert weights[:, :2].sum(2).float().allclose(torch.ones(1, 2, 2))
    weights.sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["uniform", "causal", "relation"])
def test_dropped_weights_keep_their_mean(kind: str) -> None:
    length = 6
    scope = {
        "uniform": Scope(),
        "causal": Scope.past(length),
        "relation": Scope.relation(torch.ones(1, length, length, dtype=torch.bool)),
    }[kind]
    logits = torch.zeros(400, length, 2, 3)
    values = scope.zero_binary(torch.ones(400, length, length, 2))
    torch.manual_seed(0)
    dropped = weigh(logits, values, scope.dropping(0.5))
    assert dropped.std() > 0.1
    assert dropped.mean(0).sub(1).abs().max() < 0.25


def test_a_scope_hands_out_where_its_tokens_stand() -> None:
    rows, columns = torch.tensor([[3, 4]]), torch.tensor([[0, 1, 2, 3, 4], [0, 0, 1, 2, 3]])
    scope = Scope.past(5, before=3) & Scope.padding(None).at(rows, columns)
    assert scope.rows is rows
    assert scope.columns is columns
    part = scope.part(slice(1, 2), slice(1, 2))
    assert (part.rows.tolist(), part.columns.tolist()) == ([[4]], [[0, 0, 1, 2, 3]])
    assert Scope().at(rows, columns).part(slice(0, 1), slice(0, 1)).rows.tolist() == [[3]]
    with pytest.raises(ValueError, match=r"Scope\.at"):
        _ = Scope().rows
