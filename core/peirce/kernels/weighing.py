"""Sums with unary weights that each row normalises over its own scope, without a tensor of all rows and weights.

u[g,n](x) = sum_a K[g,n](x,a) v[g](x,a) with K(x,a) = exp(k(a) - logsumexp of k over the scope of x).

K has b x a g n numbers, far more than k or v. What keeps it from being made depends on the scope:

- Rows that all attend to the same tokens have one denominator, so K does not depend on x: one product.
- In a causal scope, rows come in blocks. For CAUSAL_BLOCK = 4 and the block of rows 4 to 7, with k = [g, n, 8]:

      past    a = 0..3   all four rows see them, so their weights are exp(k - m) [g, n, 4], whatever the row, and their
                         part of the sums is one product [g, n, 4] x v [g, rows 4, 4] -> [g, n, rows 4]
      block   a = 4..7   row x sees a <= x, so weights differ by row: [g, n, rows 4, 4], a square and no more

  Each part has a maximum of its own, m of the past and p(x) of the row's whole scope, which is subtracted before exp
  takes it. The past's sums and denominators are multiplied by exp(m - p(x)) <= 1, and then the two parts add up. The
  maximum of a row is over its own scope alone, so nothing of the future enters, not even its rounding.
- In any other scope K is made for a few groups g at a time, and made again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from peirce.algebra import Scope, at_least_float32, stretch
from peirce.kernels.blocks import channels_first, on_cpu

TRACED_STEPS = 4
"""In how many steps a traced graph weighs all groups of a kernel."""
CAUSAL_BLOCK = 16
"""How many rows of a causal scope are worked on at once."""


def weigh(logits: Tensor, values: Tensor, scope: Scope) -> Tensor:
    """Sum a premise with unary weights that are normalised over what each row may attend to.

    Args:
        logits: k, [b, a, g, n].
        values: v, [b, x, a, g], zero outside the scope.
        scope: of the rows x; its `dropout` is the rate at which weights are dropped.

    Returns:
        [b, x, g, n].
    """
    if scope.uniform:
        return _weigh_uniform(logits, values, scope)
    if isinstance(values.shape[1], int) and values.shape[1] == 1:  # a symbolic size is not asked
        weights = scope.softmax(logits.unsqueeze(1)).squeeze(1)
        return _sum_shared(_drop(weights, scope), values)
    if scope.causal and not torch.compiler.is_compiling():
        return _weigh_causal(logits, values, scope)
    return _weigh_rows(logits, values, scope)


def _weigh_uniform(logits: Tensor, values: Tensor, scope: Scope) -> Tensor:
    exact = at_least_float32(logits)
    if scope.tokens is None:
        weights = exact.softmax(1)
    else:
        tokens = stretch(scope.tokens, exact)
        weights = (
            exact.masked_fill(~tokens, torch.finfo(exact.dtype).min).softmax(1).masked_fill(~tokens, 0.0)
        )
    return _sum_shared(_drop(weights.to(logits.dtype), scope), values)


def _sum_shared(weights: Tensor, values: Tensor) -> Tensor:
    """[b, a, g, n], [b, x, a, g] -> [b, x, g, n]: weights that no row has of its own."""
    if on_cpu(values):
        return torch.matmul(channels_first(values), weights.permute(0, 2, 1, 3)).transpose(1, 2)
    # Values are the larger operand, and have channels before examples in memory.
    return torch.matmul(values.permute(3, 0, 1, 2), weights.permute(2, 0, 1, 3)).permute(1, 2, 0, 3)


def _weigh_rows(logits: Tensor, values: Tensor, scope: Scope) -> Tensor:
    """A few groups g at a time: [b, x, a, g, n] at most, recomputed in the backward pass.

    One by one they take the least memory. A traced graph repeats the nodes of every step, so there the steps are
    few: with a step for each of 64 groups, in 12 layers, an exporter's optimiser does not come to an end.
    """
    count = logits.shape[2]
    step = -(-count // TRACED_STEPS) if torch.compiler.is_compiling() else 1
    keep = _drop(torch.ones_like(logits), scope)

    def weigh_groups(logits: Tensor, values: Tensor, keep: Tensor) -> Tensor:
        weights = scope.softmax(logits.unsqueeze(1).expand(-1, values.shape[1], -1, -1, -1))
        return ((weights * keep.unsqueeze(1)) * values.unsqueeze(-1)).sum(2)

    parts = [slice(start, start + step) for start in range(0, count, step)]
    return torch.cat(
        [_call_checkpointed(weigh_groups, logits[:, :, p], values[..., p], keep[:, :, p]) for p in parts], 2
    )


def _weigh_causal(logits: Tensor, values: Tensor, scope: Scope) -> Tensor:
    exact = at_least_float32(logits).permute(0, 2, 3, 1)  # [b, g, n, a]
    if scope.tokens is not None:
        exact = exact.masked_fill(~scope.tokens[:, None, None, :], torch.finfo(exact.dtype).min)
    keep = _drop(torch.ones_like(exact), scope)
    sums = values.permute(0, 3, 1, 2).to(exact.dtype)  # [b, g, x, a]
    length, blocks = exact.shape[-1], []
    for start in range(0, length, CAUSAL_BLOCK):
        stop = min(start + CAUSAL_BLOCK, length)
        parts = exact[..., :stop], sums[:, :, start:stop, :stop], keep[..., :stop]
        blocks.append(_call_checkpointed(_causal_block, *parts, start))
    return torch.cat(blocks, 1).to(logits.dtype)


def _causal_block(logits: Tensor, values: Tensor, keep: Tensor, start: int) -> Tensor:
    """Rows start.. of a causal scope: logits, keep [b, g, n, stop], values [b, g, rows, stop] -> [b, rows, g, n]."""
    low = torch.finfo(logits.dtype).min
    rows = logits.shape[-1] - start
    here = logits[..., start:].unsqueeze(-2).expand(*logits.shape[:-1], rows, rows)
    future = torch.ones(rows, rows, dtype=torch.bool, device=logits.device).triu(1)
    here = here.masked_fill(future, low)  # [b, g, n, row, a]
    peak = here.amax(-1)  # [b, g, n, row]
    past_peak = None
    if start:
        past_peak = logits[..., :start].amax(-1, keepdim=True)
        peak = torch.maximum(peak, past_peak)
    peak = peak.detach()
    weights = (here - peak.unsqueeze(-1)).exp().masked_fill(here == low, 0.0)
    total = weights.sum(-1)
    mixed = torch.einsum("bgnra,bgna,bgra->bgnr", weights, keep[..., start:], values[..., start:])
    if past_peak is not None:
        past_peak = past_peak.detach()
        past = (logits[..., :start] - past_peak).exp().masked_fill(logits[..., :start] == low, 0.0)
        rescale = (past_peak - peak).exp()
        total = total + past.sum(-1, keepdim=True) * rescale
        carried = torch.matmul(past * keep[..., :start], values[..., :start].transpose(-1, -2))
        mixed = mixed + carried * rescale
    empty = total == 0
    mixed = (mixed / total.masked_fill(empty, 1.0)).masked_fill(empty, 0.0)
    return mixed.permute(0, 3, 1, 2)


def _call_checkpointed(function: Callable[..., Tensor], *args: object) -> Tensor:
    """Call, and where gradients are wanted keep only the arguments: the backward pass recomputes the rest."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        return checkpoint(function, *args, use_reentrant=False, preserve_rng_state=False)
    return function(*args)


def _drop(weights: Tensor, scope: Scope) -> Tensor:
    return torch.dropout(weights, scope.dropout, True) if scope.dropout else weights
