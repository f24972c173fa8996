"""The norm of atoms with exact zeros outside the scope, as one kernel: one reading, one writing, sums in float32.

A program takes some atoms with all of their channels, [BR, BD]. Those outside the scope are not read. The backward pass
makes means and variances again, and its programs add up the gradients of weight and bias apart, so that no number
depends on the order in which they run.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op

from peirce.kernels.triton_tiles import accumulator, standardised, standardised_backward

WARPS = 4
LAUNCHED = ("norm_forward", "norm_backward")
"""The kernels, for what compiles each without a card."""
BLOCKS = {2: {"BR": 32}, 4: {"BR": 32}, 8: {"BR": 16}}
"""Atoms of a tile of 64 channels by the bytes of a number, fewer where there are more channels: with these nothing spills
on sm_90 (benchmarks/results/kernels.json)."""


@triton.jit
def _rows(atoms, mask, N, period, D, MASKED: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr):
    """This program's places, the channels of atoms in the scope, and all that are written."""
    rows = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    written = (rows < N)[:, None] & (tl.arange(0, BD) < D)[None, :]
    seen = written
    if MASKED:
        seen &= (tl.load(mask + rows % period, rows < N, 0) != 0)[:, None]
    return rows[:, None] * D + tl.arange(0, BD)[None, :], seen, written


@triton.jit
def norm_forward(
    atoms, weight, bias, mask, normal, N, period, D, epsilon,
    MASKED: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr, SUM: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """normal [n, d] of atoms [n, d], both contiguous, and a mask of n numbers, or of fewer that repeat."""
    place, seen, written = _rows(atoms, mask, N, period, D, MASKED, BR, BD)
    values, _ = standardised(tl.load(atoms + place, seen, 0.0).to(SUM), epsilon, D, BD)
    channels = tl.arange(0, BD)
    if WEIGHT:
        values *= tl.load(weight + channels, channels < D, 0.0).to(SUM)[None, :]
    if BIAS:
        values += tl.load(bias + channels, channels < D, 0.0).to(SUM)[None, :]
    tl.store(normal + place, tl.where(seen, values, 0.0).to(normal.dtype.element_ty), written)


@triton.jit
def norm_backward(
    atoms, weight, mask, grads, datoms, dweight, dbias, N, period, D, epsilon,
    MASKED: tl.constexpr, WEIGHT: tl.constexpr, SUM: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """datoms [n, d], and what this program's atoms give to dweight and dbias, [programs, d]."""
    place, seen, written = _rows(atoms, mask, N, period, D, MASKED, BR, BD)
    normal, inverse = standardised(tl.load(atoms + place, seen, 0.0).to(SUM), epsilon, D, BD)
    given = tl.load(grads + place, seen, 0.0).to(SUM)
    channels = tl.arange(0, BD)
    if WEIGHT:
        own = tl.program_id(0).to(tl.int64) * D + channels
        tl.store(dweight + own, tl.sum(given * normal, 0), channels < D)
        tl.store(dbias + own, tl.sum(given, 0), channels < D)
        given *= tl.load(weight + channels, channels < D, 0.0).to(SUM)[None, :]
    found = tl.where(seen, standardised_backward(given, normal, inverse, D), 0.0)
    tl.store(datoms + place, found.to(datoms.dtype.element_ty), written)


def _launch(atoms: Tensor, mask: Tensor | None) -> tuple[tuple[int], tuple[int, int, int], dict[str, Any]]:
    """The grid, the sizes and the constants."""
    width = atoms.shape[-1]
    rows = atoms.numel() // width
    channels = triton.next_power_of_2(width)
    block = max(1, min(64, BLOCKS[atoms.itemsize]["BR"] * 64 // channels))
    period = rows if mask is None else mask.numel()
    constants = {"MASKED": mask is not None, "SUM": accumulator(atoms.dtype), "BR": block, "BD": channels}
    return (-(-rows // block),), (rows, period, width), constants


def _bytes(mask: Tensor | None, sample: Tensor) -> Tensor:
    return sample if mask is None else mask.contiguous().view(torch.uint8)


@custom_op("peirce::norm", mutates_args=())
def _norm(
    atoms: Tensor, weight: Tensor | None, bias: Tensor | None, mask: Tensor | None, epsilon: float
) -> Tensor:
    """[b, ..., d], [d], [d], bool [b or 1, ...] -> [b, ..., d]."""
    atoms = atoms.contiguous()
    normal = torch.empty_like(atoms)
    grid, sizes, constants = _launch(atoms, mask)
    given = [atoms if each is None else each for each in (weight, bias)]
    affine = {"WEIGHT": weight is not None, "BIAS": bias is not None}
    with torch.cuda.device_of(atoms):
        norm_forward[grid](atoms, *given, _bytes(mask, atoms), normal, *sizes, epsilon, **affine, **constants)
    return normal


@_norm.register_fake
def _(atoms: Tensor, *others: Any) -> Tensor:
    return atoms.new_empty(atoms.shape)


@custom_op("peirce::norm_backward", mutates_args=())
def _norm_backward(
    grads: Tensor, atoms: Tensor, weight: Tensor | None, mask: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of atoms, weight and bias; of the last two nothing where there is no weight."""
    grads, atoms = grads.contiguous(), atoms.contiguous()
    found = torch.empty_like(atoms)
    grid, sizes, constants = _launch(atoms, mask)
    exact = torch.float64 if atoms.dtype == torch.float64 else torch.float32
    parts = [atoms.new_empty(0 if weight is None else grid[0], sizes[2], dtype=exact) for _ in range(2)]
    with torch.cuda.device_of(atoms):
        norm_backward[grid](
            atoms, atoms if weight is None else weight, _bytes(mask, atoms), grads, found, *parts, *sizes, epsilon,
            WEIGHT=weight is not None, **constants,
        )  # fmt: skip
    kind = atoms.dtype if weight is None else weight.dtype
    return found, parts[0].sum(0).to(kind), parts[1].sum(0).to(kind)


@_norm_backward.register_fake
def _(
    grads: Tensor, atoms: Tensor, weight: Tensor | None, mask: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    sample = atoms if weight is None else weight
    width = atoms.shape[-1]
    return atoms.new_empty(atoms.shape), sample.new_empty(width), sample.new_empty(width)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    atoms, weight, bias, mask, ctx.epsilon = inputs
    ctx.biased = bias is not None
    ctx.save_for_backward(atoms, weight, mask)


def _differentiate(ctx: Any, grads: Tensor) -> tuple[Tensor | None, ...]:
    found, weight, bias = _norm_backward(grads, *ctx.saved_tensors, ctx.epsilon)
    weighted = ctx.saved_tensors[1] is not None
    return found, weight if weighted else None, bias if weighted and ctx.biased else None, None, None


_norm.register_autograd(_differentiate, setup_context=_keep)


def norm(
    atoms: Tensor, weight: Tensor | None, bias: Tensor | None, mask: Tensor | None, epsilon: float
) -> Tensor:
    """What `fused_norm` gives."""
    found: Tensor = _norm(atoms, weight, bias, mask, epsilon)
    return found
