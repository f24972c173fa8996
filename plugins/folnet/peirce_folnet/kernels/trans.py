"""The composition of relations as one kernel: a softmax over the middle token and a product, channel by channel.

u[d](x,y) = sum_a K[d](x,a) v[d](a,y), with K a softmax of k[d](x,a) over the tokens a in the scope of x. A program makes
one tile of u in one channel of one example, [BX, BY]: it goes along a, [BA] tokens at a time, with the largest logit so
far and the sum of weights so far, which rescale what was summed before. So K is never in memory. Of each row
log sum exp k is kept, [d, b, x], from which the backward pass makes tiles of K again:

    dv = K^T du        tiles [BA, BY], along x
    dK = du v^T        tiles [BX, BA], along y
    dk = K (dK - s)    with s(x) = sum_y du(x,y) u(x,y), which is sum_a K(x,a) dK(x,a)

Source: the rescaled sums are those of online softmax (Milakov & Gimelshein, 2018), Algorithm 3.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op

from peirce.kernels.triton_tiles import corner, draw_seed, inside, kept, launch_constants, tile

BLOCKS = {
    2: {"BX": 64, "BA": 32, "BY": 64},
    4: {"BX": 32, "BA": 32, "BY": 32},
    8: {"BX": 16, "BA": 16, "BY": 32},
}
"""The sides of tiles by the bytes of a number: with these nothing spills on sm_90 (benchmarks/results/kernels.json)."""
WARPS = 8
LAUNCHED = ("trans_forward", "trans_slopes", "trans_values_backward", "trans_logits_backward")
"""The kernels, for what compiles each without a card."""


@triton.jit
def _logits(
    k, mask, x, a, X, A, kx, ka, mx, ma, MASKED: tl.constexpr, SUM: tl.constexpr, BX: tl.constexpr, BA: tl.constexpr
):  # fmt: skip
    """A tile of logits, [x, a], minus infinity outside the scope."""
    seen = inside(x, a, X, A, BX, BA)
    if MASKED:
        seen &= tl.load(tile(mask, x, a, mx, ma, BX, BA), seen, 0) != 0
    return tl.load(tile(k, x, a, kx, ka, BX, BA), seen, -float("inf")).to(SUM)


@triton.jit
def _numbers(plane, x, a, X, A, BX: tl.constexpr, BA: tl.constexpr):
    """The numbers of a tile's weights among all weights."""
    return (plane * X + x + tl.arange(0, BX))[:, None] * A + (a + tl.arange(0, BA))[None, :]


@triton.jit
def trans_forward(
    k, v, mask, u, norms, B, X, A, Y, kd, kb, kx, ka, vd, vb, va, vy, mb, mx, ma,
    seed, rate, MASKED: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr, SUM: tl.constexpr,
    BX: tl.constexpr, BA: tl.constexpr, BY: tl.constexpr,
):  # fmt: skip
    """u [d, b, x, y] and norms [d, b, x], of k [d, b, x, a] and v [d, b, a, y] with any strides."""
    plane, x, y = corner(X, Y, BX, BY)
    k += plane // B * kd + plane % B * kb
    v += plane // B * vd + plane % B * vb
    mask += plane % B * mb
    peak = tl.full([BX], -float("inf"), SUM)
    total = tl.zeros([BX], SUM)
    sums = tl.zeros([BX, BY], SUM)
    for a in range(0, A, BA):
        logits = _logits(k, mask, x, a, X, A, kx, ka, mx, ma, MASKED, SUM, BX, BA)
        new = tl.maximum(peak, tl.max(logits, 1))
        shift = tl.where(new == -float("inf"), 0.0, new)  # of a row that has seen nothing yet
        weights = tl.exp(logits - shift[:, None])
        rescale = tl.exp(peak - shift)
        values = tl.load(tile(v, a, y, va, vy, BA, BY), inside(a, y, A, Y, BA, BY), 0.0)
        total = total * rescale + tl.sum(weights, 1)
        if DROPS:
            weights *= kept(seed, _numbers(plane, x, a, X, A, BX, BA), rate).to(SUM)
        product = tl.dot(weights.to(values.dtype), values, input_precision=PRECISION, out_dtype=SUM)
        sums = sums * rescale[:, None] + product
        peak = new
    sums = sums / tl.where(total == 0, 1.0, total)[:, None]
    tl.store(
        tile(u + plane * X * Y, x, y, Y, 1, BX, BY), sums.to(u.dtype.element_ty), inside(x, y, X, Y, BX, BY)
    )
    if y == 0:
        # Infinity where a row sees nothing: its weights are exp(k - infinity) = 0.
        norm = tl.where(total == 0, float("inf"), peak + tl.log(tl.where(total == 0, 1.0, total)))
        rows = x + tl.arange(0, BX)
        tl.store(norms + plane * X + rows, norm, rows < X)


@triton.jit
def trans_slopes(du, u, slopes, N, Y, SUM: tl.constexpr, BX: tl.constexpr, BY: tl.constexpr):
    """s [n] of du and u, both [n, y], contiguous."""
    x = tl.program_id(0).to(tl.int64) * BX
    sums = tl.zeros([BX], SUM)
    for y in range(0, Y, BY):
        real = inside(x, y, N, Y, BX, BY)
        grads = tl.load(tile(du, x, y, Y, 1, BX, BY), real, 0.0).to(SUM)
        sums += tl.sum(grads * tl.load(tile(u, x, y, Y, 1, BX, BY), real, 0.0).to(SUM), 1)
    rows = x + tl.arange(0, BX)
    tl.store(slopes + rows, sums, rows < N)


@triton.jit
def trans_values_backward(
    k, mask, du, norms, dv, B, X, A, Y, kd, kb, kx, ka, mb, mx, ma,
    seed, rate, MASKED: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr, SUM: tl.constexpr,
    BX: tl.constexpr, BA: tl.constexpr, BY: tl.constexpr,
):  # fmt: skip
    """dv [d, b, a, y]."""
    plane, a, y = corner(A, Y, BA, BY)
    k += plane // B * kd + plane % B * kb
    mask += plane % B * mb
    sums = tl.zeros([BA, BY], SUM)
    for x in range(0, X, BX):
        logits = _logits(k, mask, x, a, X, A, kx, ka, mx, ma, MASKED, SUM, BX, BA)
        rows = x + tl.arange(0, BX)
        norm = tl.load(norms + plane * X + rows, rows < X, float("inf"))
        weights = tl.exp(logits - norm[:, None])
        if DROPS:
            weights *= kept(seed, _numbers(plane, x, a, X, A, BX, BA), rate).to(SUM)
        grads = tl.load(tile(du + plane * X * Y, x, y, Y, 1, BX, BY), inside(x, y, X, Y, BX, BY), 0.0)
        sums += tl.dot(tl.trans(weights.to(grads.dtype)), grads, input_precision=PRECISION, out_dtype=SUM)
    tl.store(
        tile(dv + plane * A * Y, a, y, Y, 1, BA, BY),
        sums.to(dv.dtype.element_ty),
        inside(a, y, A, Y, BA, BY),
    )


@triton.jit
def trans_logits_backward(
    k, v, mask, du, norms, slopes, dk, B, X, A, Y, kd, kb, kx, ka, vd, vb, va, vy, mb, mx, ma,
    seed, rate, MASKED: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr, SUM: tl.constexpr,
    BX: tl.constexpr, BA: tl.constexpr, BY: tl.constexpr,
):  # fmt: skip
    """dk [d, b, x, a]."""
    plane, x, a = corner(X, A, BX, BA)
    k += plane // B * kd + plane % B * kb
    v += plane // B * vd + plane % B * vb
    mask += plane % B * mb
    sums = tl.zeros([BX, BA], SUM)
    for y in range(0, Y, BY):
        grads = tl.load(tile(du + plane * X * Y, x, y, Y, 1, BX, BY), inside(x, y, X, Y, BX, BY), 0.0)
        values = tl.load(tile(v, a, y, va, vy, BA, BY), inside(a, y, A, Y, BA, BY), 0.0)
        sums += tl.dot(grads, tl.trans(values), input_precision=PRECISION, out_dtype=SUM)
    if DROPS:
        sums *= kept(seed, _numbers(plane, x, a, X, A, BX, BA), rate).to(SUM)
    logits = _logits(k, mask, x, a, X, A, kx, ka, mx, ma, MASKED, SUM, BX, BA)
    rows = x + tl.arange(0, BX)
    norm = tl.load(norms + plane * X + rows, rows < X, float("inf"))
    slope = tl.load(slopes + plane * X + rows, rows < X, 0.0)
    grad = tl.exp(logits - norm[:, None]) * (sums - slope[:, None])
    tl.store(
        tile(dk + plane * X * A, x, a, A, 1, BX, BA),
        grad.to(dk.dtype.element_ty),
        inside(x, a, X, A, BX, BA),
    )


def _shape(k: Tensor, v: Tensor) -> tuple[int, int, int, int]:
    """b, x, a, y."""
    return k.shape[1], k.shape[2], k.shape[3], v.shape[3]


def _masked(k: Tensor, mask: Tensor | None) -> tuple[Tensor, tuple[int, int, int]]:
    """The mask as bytes, or anything where there is none, and its strides; one of a single example is every one's."""
    if mask is None:
        return k, (0, 0, 0)
    return mask.view(torch.uint8), (mask.stride(0) if len(mask) > 1 else 0, mask.stride(1), mask.stride(2))


def _constants(k: Tensor, mask: Tensor | None, seed: Tensor | None, rate: float) -> dict[str, Any]:
    given = {"seed": k if seed is None else seed, "rate": rate}
    return {**given, **launch_constants(k, mask, seed, WARPS), **BLOCKS[k.itemsize]}


def _grid(k: Tensor, rows: int, row_block: str, columns: int, column_block: str) -> tuple[int]:
    """A program for each tile of each plane."""
    sides = BLOCKS[k.itemsize]
    return (k.shape[0] * k.shape[1] * -(-rows // sides[row_block]) * -(-columns // sides[column_block]),)


@custom_op("peirce::trans", mutates_args=())
def _trans(
    k: Tensor, v: Tensor, mask: Tensor | None, seed: Tensor | None, rate: float
) -> tuple[Tensor, Tensor]:
    """k [d, b, x, a], v [d, b, a, y], bool [b or 1, x, a] -> u [d, b, x, y] and log sum exp of k [d, b, x]."""
    b, x, a, y = _shape(k, v)
    u, norms = _allocate(k, v)
    given, strides = _masked(k, mask)
    with torch.cuda.device_of(k):
        trans_forward[_grid(k, x, "BX", y, "BY")](
            k, v, given, u, norms, b, x, a, y, *k.stride(), *v.stride(), *strides, **_constants(k, mask, seed, rate)
        )  # fmt: skip
    return u, norms


def _allocate(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    norms = torch.float64 if k.dtype == torch.float64 else torch.float32
    return v.new_empty(*k.shape[:3], v.shape[3]), k.new_empty(k.shape[:3], dtype=norms)


@_trans.register_fake
def _(k: Tensor, v: Tensor, mask: Tensor | None, seed: Tensor | None, rate: float) -> tuple[Tensor, Tensor]:
    return _allocate(k, v)


@custom_op("peirce::trans_backward", mutates_args=())
def _trans_backward(
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    u: Tensor,
    norms: Tensor,
    du: Tensor,
    rate: float,
) -> tuple[Tensor, Tensor]:
    """dk [d, b, x, a] and dv [d, b, a, y]."""
    b, x, a, y = _shape(k, v)
    du, given, strides = du.contiguous(), *_masked(k, mask)
    slopes, constants = torch.empty_like(norms), _constants(k, mask, seed, rate)
    dk, dv = k.new_empty(k.shape), v.new_empty(v.shape)
    sides = {side: constants[side] for side in ("BX", "BY")}
    with torch.cuda.device_of(k):
        trans_slopes[(-(-norms.numel() // sides["BX"]),)](
            du, u, slopes, norms.numel(), y, SUM=constants["SUM"], **sides
        )
        trans_logits_backward[_grid(k, x, "BX", a, "BA")](
            k, v, given, du, norms, slopes, dk, b, x, a, y, *k.stride(), *v.stride(), *strides, **constants
        )
        trans_values_backward[_grid(k, a, "BA", y, "BY")](
            k, given, du, norms, dv, b, x, a, y, *k.stride(), *strides, **constants
        )
    return dk, dv


@_trans_backward.register_fake
def _(k: Tensor, v: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.rate = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, du: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if du is None:
        return (None,) * 5
    return *_trans_backward(*ctx.saved_tensors, du, ctx.rate), None, None, None


_trans.register_autograd(_differentiate, setup_context=_keep)


def trans(logits: Tensor, values: Tensor, pairs: Tensor | None, rate: float = 0.0) -> Tensor:
    """Compose two relations channel by channel: a softmax of the first over the middle token, times the second.

    Args:
        logits: k, [b, x, a, d].
        values: v, [b, a, y, d], zero outside the scope.
        pairs: bool [b or 1, x, a], the tokens that the rows see; None for all.
        rate: at which weights are dropped.

    Returns:
        [b, x, y, d], zeros where a row sees nothing.
    """
    k, v = logits.permute(3, 0, 1, 2), values.permute(3, 0, 1, 2)
    u, _ = _trans(k, v, pairs, draw_seed(k, rate), rate)
    return u.permute(1, 2, 3, 0)
