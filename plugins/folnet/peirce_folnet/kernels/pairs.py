"""A feed-forward network on relations as one kernel, from atoms before their norm to atoms with the result added.

    w(x,y) = u(x,y) + z(x,y) (W2 gelu(W1 [n(x,y); n(y,x)] + b1) + b2 + S n(y,x) + b),  n the norm of u, zero outside the scope

z is dropout. A program makes w of a tile of rows and columns, BX times BY pairs with all their channels, and goes along
the hidden layer, [BH] at a time: neither the norms, nor both directions side by side, nor the hidden layer are ever in
memory. The backward pass makes all of that again. The gradient of u(x,y) has what w(x,y) gives it and what w(y,x) does,
so a program computes the hidden layer of both:

    du(x,y) = dw(x,y) + norm'(W1a^T dh(x,y) + W1b^T dh(y,x) + S^T z(y,x) dw(y,x)),   W1 = [W1a, W1b]
    dh(x,y) = (W2^T z(x,y) dw(x,y)) gelu'(h(x,y))

Gradients of weights are sums over all pairs: a program of `SPLITS` takes every so-many-th tile and a part of the hidden
layer, and torch adds up what they found.

Tiles have shape [pairs, channels], weights [in, out]; D channels fill BD, the next power of two. Rows x are the last
tokens where Y is larger than X, and the columns before them have no converse.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op

from peirce.kernels.triton_tiles import (
    corner,
    draw_seed,
    kept,
    launch_constants,
    standardised,
    standardised_backward,
)

BLOCKS = {
    2: {"BX": 8, "BY": 8, "BH": 32},
    4: {"BX": 4, "BY": 4, "BH": 16},
    8: {"BX": 4, "BY": 4, "BH": 16},
}
"""The sides of tiles by the bytes of a number: with these nothing of 64 channels spills on sm_90, but for gradients in
float64 (benchmarks/results/kernels.json)."""
WARPS = 8
LAUNCHED = ("pairs_forward", "pairs_backward", "pairs_weights_backward", "pairs_skip_backward")
"""The kernels, for what compiles each without a card."""
SPLITS = 128
"""Programs that share the pairs for each part of the gradients of weights."""


@triton.jit
def _places(plane, x, y, X, Y):
    """Where pairs lie, and whether they are there."""
    return (plane * X + x) * Y + y, (x >= 0) & (x < X) & (y >= 0) & (y < Y)


@triton.jit
def _grid_of(plane, x, y, X, Y, BX: tl.constexpr, BY: tl.constexpr):
    """The pairs (x, y) of a tile that begins at a row and a column, and their converse pairs."""
    rows, columns = x + tl.arange(0, BX * BY) // BY, y + tl.arange(0, BX * BY) % BY
    here, is_here = _places(plane, rows, columns, X, Y)
    there, is_there = _places(plane, columns - (Y - X), rows + (Y - X), X, Y)
    return here, is_here, there, is_there & is_here


@triton.jit
def _normal(
    atoms, mask, place, real, period, D, epsilon, MASKED: tl.constexpr, SUM: tl.constexpr, BD: tl.constexpr
):
    """The norm of some pairs' atoms, [pairs, BD], zero outside the scope, in their dtype and in that of sums;
    1 / deviation; who is in the scope."""
    seen = real
    if MASKED:
        seen &= tl.load(mask + place % period, real, 0) != 0
    normal, inverse = standardised(_channels(atoms, place, seen, D, BD).to(SUM), epsilon, D, BD)
    return normal.to(atoms.dtype.element_ty), normal, inverse, seen


@triton.jit
def _channels(atoms, place, real, D, BD: tl.constexpr):
    """The channels of some pairs, [pairs, BD]."""
    channels = tl.arange(0, BD)
    return tl.load(
        atoms + place[:, None] * D + channels[None, :], real[:, None] & (channels < D)[None, :], 0.0
    )


@triton.jit
def _weight(weight, first, second, across, rows, columns, along, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A part of a matrix, [ROWS, COLUMNS], from a row and a column on; strides `across` rows and `along` columns."""
    row, column = first + tl.arange(0, ROWS), second + tl.arange(0, COLUMNS)
    real = (row < rows)[:, None] & (column < columns)[None, :]
    return tl.load(weight + row[:, None] * across + column[None, :] * along, real, 0.0)


@triton.jit
def _dropped(grads, place, real, seed, rate, D, DROPS: tl.constexpr, BD: tl.constexpr):
    """Values [pairs, BD] of some pairs, dropped."""
    if DROPS:
        grads *= kept(seed, place[:, None] * D + tl.arange(0, BD)[None, :], rate).to(grads.dtype)
    return grads


@triton.jit
def _gelu(h):
    return 0.5 * h * (1.0 + tl.erf(h * 0.7071067811865476))


@triton.jit
def _gelu_slope(h):
    return 0.5 * (1.0 + tl.erf(h * 0.7071067811865476)) + h * 0.3989422804014327 * tl.exp(-0.5 * h * h)


@triton.jit
def _hidden(one, other, wa, wb, b1, h, H, PRECISION: tl.constexpr, SUM: tl.constexpr, BH: tl.constexpr):
    """The hidden layer of some pairs before its activation, [pairs, BH], from a number h on."""
    found = tl.dot(one, wa, input_precision=PRECISION, out_dtype=SUM)
    found += tl.dot(other, wb, input_precision=PRECISION, out_dtype=SUM)
    numbers = h + tl.arange(0, BH)
    return found + tl.load(b1 + numbers, numbers < H, 0.0).to(SUM)[None, :]


@triton.jit
def pairs_forward(
    u, mask, w1, b1, w2, b2, s, b, seed, w, X, Y, period, D, H, epsilon, rate,
    MASKED: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr, SUM: tl.constexpr,
    BX: tl.constexpr, BY: tl.constexpr, BD: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    """w of u, both [b, x, y, d]; w1 [h, 2d], w2 [d, h], s [d, d]."""
    plane, x, y = corner(X, Y, BX, BY)
    here, is_here, there, is_there = _grid_of(plane, x, y, X, Y, BX, BY)
    one, _, _, _ = _normal(u, mask, here, is_here, period, D, epsilon, MASKED, SUM, BD)
    other, _, _, _ = _normal(u, mask, there, is_there, period, D, epsilon, MASKED, SUM, BD)
    sums = tl.dot(other, _weight(s, 0, 0, 1, D, D, D, BD, BD), input_precision=PRECISION, out_dtype=SUM)
    for h in range(0, H, BH):
        wa, wb = _weight(w1, 0, h, 1, D, H, 2 * D, BD, BH), _weight(w1 + D, 0, h, 1, D, H, 2 * D, BD, BH)
        hidden = _gelu(_hidden(one, other, wa, wb, b1, h, H, PRECISION, SUM, BH)).to(one.dtype)
        sums += tl.dot(
            hidden, _weight(w2, h, 0, 1, H, D, H, BH, BD), input_precision=PRECISION, out_dtype=SUM
        )
    channels = tl.arange(0, BD)
    for bias in tl.static_range(2):
        sums += tl.load((b2 if bias == 0 else b) + channels, channels < D, 0.0).to(SUM)[None, :]
    sums = _dropped(sums, here, is_here, seed, rate, D, DROPS, BD) + _channels(u, here, is_here, D, BD).to(
        SUM
    )
    place = here[:, None] * D + channels[None, :]
    tl.store(w + place, sums.to(w.dtype.element_ty), is_here[:, None] & (channels < D)[None, :])


@triton.jit
def pairs_backward(
    u, mask, w1, b1, w2, s, seed, dw, du, X, Y, period, D, H, epsilon, rate,
    MASKED: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr, SUM: tl.constexpr,
    BX: tl.constexpr, BY: tl.constexpr, BD: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    """du of dw, both [b, x, y, d]."""
    plane, x, y = corner(X, Y, BX, BY)
    here, is_here, there, is_there = _grid_of(plane, x, y, X, Y, BX, BY)
    other, _, _, _ = _normal(u, mask, there, is_there, period, D, epsilon, MASKED, SUM, BD)
    one, normal, inverse, seen = _normal(u, mask, here, is_here, period, D, epsilon, MASKED, SUM, BD)
    given = _dropped(_channels(dw, here, is_here, D, BD), here, is_here, seed, rate, D, DROPS, BD)
    back = _dropped(_channels(dw, there, is_there, D, BD), there, is_there, seed, rate, D, DROPS, BD)
    sums = tl.dot(back, _weight(s, 0, 0, D, D, D, 1, BD, BD), input_precision=PRECISION, out_dtype=SUM)
    for h in range(0, H, BH):
        wa, wb = _weight(w1, 0, h, 1, D, H, 2 * D, BD, BH), _weight(w1 + D, 0, h, 1, D, H, 2 * D, BD, BH)
        out = _weight(w2, 0, h, H, D, H, 1, BD, BH)
        hidden = _hidden(one, other, wa, wb, b1, h, H, PRECISION, SUM, BH)
        grad = tl.dot(given, out, input_precision=PRECISION, out_dtype=SUM) * _gelu_slope(hidden)
        sums += tl.dot(grad.to(wa.dtype), tl.trans(wa), input_precision=PRECISION, out_dtype=SUM)
        hidden = _hidden(other, one, wa, wb, b1, h, H, PRECISION, SUM, BH)
        grad = tl.dot(back, out, input_precision=PRECISION, out_dtype=SUM) * _gelu_slope(hidden)
        sums += tl.dot(grad.to(wb.dtype), tl.trans(wb), input_precision=PRECISION, out_dtype=SUM)
    found = tl.where(seen[:, None], standardised_backward(sums, normal, inverse, D), 0.0)
    found += _channels(dw, here, is_here, D, BD).to(SUM)
    channels = tl.arange(0, BD)
    place = here[:, None] * D + channels[None, :]
    tl.store(du + place, found.to(du.dtype.element_ty), is_here[:, None] & (channels < D)[None, :])


@triton.jit
def pairs_weights_backward(
    u, mask, w1, b1, w2, seed, dw, dw1, db1, dw2, B, X, Y, period, D, H, epsilon, rate,
    MASKED: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr, SUM: tl.constexpr,
    BX: tl.constexpr, BY: tl.constexpr, BD: tl.constexpr, BH: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """What every SPLITS-th tile gives to a part of dw1 [splits, h, 2d], db1 [splits, h] and dw2 [splits, d, h]."""
    split, h = tl.program_id(0).to(tl.int64), tl.program_id(1) * BH
    wa, wb = _weight(w1, 0, h, 1, D, H, 2 * D, BD, BH), _weight(w1 + D, 0, h, 1, D, H, 2 * D, BD, BH)
    out = _weight(w2, 0, h, H, D, H, 1, BD, BH)
    first, second = tl.zeros([BD, BH], SUM), tl.zeros([BD, BH], SUM)
    third, bias = tl.zeros([BD, BH], SUM), tl.zeros([BH], SUM)
    across = tl.cdiv(Y, BY)
    tiles = tl.cdiv(X, BX) * across
    for number in range(split, B * tiles, SPLITS):
        plane, tile = number // tiles, number % tiles
        here, is_here, there, is_there = _grid_of(
            plane, tile // across * BX, tile % across * BY, X, Y, BX, BY
        )
        one, _, _, _ = _normal(u, mask, here, is_here, period, D, epsilon, MASKED, SUM, BD)
        other, _, _, _ = _normal(u, mask, there, is_there, period, D, epsilon, MASKED, SUM, BD)
        given = _dropped(_channels(dw, here, is_here, D, BD), here, is_here, seed, rate, D, DROPS, BD)
        hidden = _hidden(one, other, wa, wb, b1, h, H, PRECISION, SUM, BH)
        grad = tl.dot(given, out, input_precision=PRECISION, out_dtype=SUM) * _gelu_slope(hidden)
        bias += tl.sum(grad, 0)
        grad = grad.to(one.dtype)
        first += tl.dot(tl.trans(one), grad, input_precision=PRECISION, out_dtype=SUM)
        second += tl.dot(tl.trans(other), grad, input_precision=PRECISION, out_dtype=SUM)
        active = _gelu(hidden).to(one.dtype)
        third += tl.dot(tl.trans(given), active, input_precision=PRECISION, out_dtype=SUM)
    channels, numbers = tl.arange(0, BD)[:, None], (h + tl.arange(0, BH))[None, :]
    real = (channels < D) & (numbers < H)
    begin = dw1 + (split * H + numbers) * 2 * D + channels
    tl.store(begin, first, real)
    tl.store(begin + D, second, real)
    tl.store(dw2 + (split * D + channels) * H + numbers, third, real)
    numbers = h + tl.arange(0, BH)
    tl.store(db1 + split * H + numbers, bias, numbers < H)


@triton.jit
def pairs_skip_backward(
    u, mask, seed, dw, ds, db, B, X, Y, period, D, epsilon, rate,
    MASKED: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr, SUM: tl.constexpr,
    BX: tl.constexpr, BY: tl.constexpr, BD: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """What every SPLITS-th tile gives to ds [splits, d, d], and to the gradient of both biases, db [splits, d]."""
    split = tl.program_id(0).to(tl.int64)
    sums, bias = tl.zeros([BD, BD], SUM), tl.zeros([BD], SUM)
    across = tl.cdiv(Y, BY)
    tiles = tl.cdiv(X, BX) * across
    for number in range(split, B * tiles, SPLITS):
        plane, tile = number // tiles, number % tiles
        here, is_here, there, is_there = _grid_of(
            plane, tile // across * BX, tile % across * BY, X, Y, BX, BY
        )
        _, normal, _, _ = _normal(u, mask, there, is_there, period, D, epsilon, MASKED, SUM, BD)
        given = _dropped(_channels(dw, here, is_here, D, BD), here, is_here, seed, rate, D, DROPS, BD)
        sums += tl.dot(tl.trans(given), normal.to(given.dtype), input_precision=PRECISION, out_dtype=SUM)
        bias += tl.sum(given.to(SUM), 0)
    channels = tl.arange(0, BD)
    real = (channels < D)[:, None] & (channels < D)[None, :]
    tl.store(ds + (split * D + channels[:, None]) * D + channels[None, :], sums, real)
    tl.store(db + split * D + channels, bias, channels < D)


def _launch(
    u: Tensor, mask: Tensor | None, hidden: int, seed: Tensor | None
) -> tuple[int, tuple[int, ...], dict[str, Any]]:
    """How many tiles there are; the sizes x, y, period, d and h; the constants."""
    b, x, y, d = u.shape
    sides = BLOCKS[u.itemsize]
    channels = max(16, triton.next_power_of_2(d))
    constants = {**launch_constants(u, mask, seed, WARPS), "BD": channels, **sides}
    period = b * x * y if mask is None else mask.numel()
    return b * -(-x // sides["BX"]) * -(-y // sides["BY"]), (x, y, period, d, hidden), constants


def _or(tensor: Tensor | None, other: Tensor) -> Tensor:
    """A tensor, a mask as bytes; another where there is none."""
    if tensor is None:
        return other
    return tensor.contiguous().view(torch.uint8) if tensor.dtype == torch.bool else tensor


@custom_op("peirce::pairs", mutates_args=())
def _pairs(
    u: Tensor,
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    s: Tensor,
    b: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    epsilon: float,
    rate: float,
) -> Tensor:
    """w of u, both [b, x, y, d]."""
    u = u.contiguous()
    weights = [each.contiguous() for each in (w1, b1, w2, b2, s, b)]
    found = torch.empty_like(u)
    tiles, sizes, constants = _launch(u, mask, len(b1), seed)
    with torch.cuda.device_of(u):
        pairs_forward[(tiles,)](
            u, _or(mask, u), *weights, _or(seed, u), found, *sizes, epsilon, rate, **constants
        )
    return found


@_pairs.register_fake
def _(u: Tensor, *others: Any) -> Tensor:
    return u.new_empty(u.shape)


@custom_op("peirce::pairs_backward", mutates_args=())
def _pairs_backward(
    dw: Tensor,
    u: Tensor,
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    s: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    epsilon: float,
    rate: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of u, w1, b1, w2 and s, and of both biases of the result."""
    dw, u = dw.contiguous(), u.contiguous()
    w1, b1, w2, s = (each.contiguous() for each in (w1, b1, w2, s))
    given, drawn, du = _or(mask, u), _or(seed, u), torch.empty_like(u)
    tiles, sizes, constants = _launch(u, mask, len(b1), seed)
    numbers = epsilon, rate
    exact = torch.float64 if u.dtype == torch.float64 else torch.float32
    splits = min(SPLITS, tiles)
    dw1, db1, dw2, ds, db = (
        u.new_empty(splits, *shape, dtype=exact)
        for shape in (w1.shape, b1.shape, w2.shape, s.shape, s.shape[:1])
    )
    parts = -(-len(b1) // constants["BH"])
    with torch.cuda.device_of(u):
        pairs_backward[(tiles,)](u, given, w1, b1, w2, s, drawn, dw, du, *sizes, *numbers, **constants)
        pairs_weights_backward[splits, parts](
            u, given, w1, b1, w2, drawn, dw, dw1, db1, dw2, len(u), *sizes, *numbers, SPLITS=splits, **constants
        )  # fmt: skip
        del constants["BH"]
        pairs_skip_backward[(splits,)](
            u, given, drawn, dw, ds, db, len(u), *sizes[:4], *numbers, SPLITS=splits, **constants
        )
    w1g, b1g, w2g, sg, bg = (each.sum(0).to(w1.dtype) for each in (dw1, db1, dw2, ds, db))
    return du, w1g, b1g, w2g, sg, bg


@_pairs_backward.register_fake
def _(
    dw: Tensor, u: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, s: Tensor, *others: Any
) -> tuple[Tensor, ...]:
    found = [each.new_empty(each.shape) for each in (u, w1, b1, w2, s)]
    return *found, s.new_empty(s.shape[0])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    u, w1, b1, w2, _, s, _, mask, seed, ctx.epsilon, ctx.rate = inputs
    ctx.save_for_backward(u, w1, b1, w2, s, mask, seed)


def _differentiate(ctx: Any, dw: Tensor) -> tuple[Tensor | None, ...]:
    du, w1, b1, w2, s, b = _pairs_backward(dw, *ctx.saved_tensors, ctx.epsilon, ctx.rate)
    return du, w1, b1, w2, b, s, b, None, None, None, None


_pairs.register_autograd(_differentiate, setup_context=_keep)


def pair_network(
    atoms: Tensor,
    hidden: tuple[Tensor, Tensor],
    output: tuple[Tensor, Tensor],
    converse: tuple[Tensor, Tensor],
    mask: Tensor | None,
    epsilon: float,
    rate: float = 0.0,
) -> Tensor:
    """Atoms u(x,y) with what a network makes of their norms n(x,y) and n(y,x), and a map of n(y,x), added.

    Args:
        atoms: u, [b, x, y, d]; where x are fewer than y, they are the last.
        hidden: weight [h, 2d] and bias [h] of the hidden layer, which gelu activates.
        output: weight [d, h] and bias [d] of what reads it.
        converse: weight [d, d] and bias [d] of the map of n(y,x).
        mask: bool [b or 1, x, y]; norms outside it are zero.
        epsilon: of the norm, which has neither weight nor bias.
        rate: at which what is added is dropped.

    Returns:
        [b, x, y, d].
    """
    seed = draw_seed(atoms, rate)
    found: Tensor = _pairs(atoms, *hidden, *output, *converse, mask, seed, epsilon, rate)
    return found
