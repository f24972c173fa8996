"""What kernels in Triton's language share: where a tile lies, which numbers dropout keeps, norms, and precisions.

Names of sides in capitals are constants of a compiled kernel, and so are `MASKED`, whether there is a mask, `DROPS`,
whether there is dropout, `PRECISION`, how float32 is multiplied, and `SUM`, the dtype of sums. Products need sides of 16.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def tile(base, row, column, row_stride, column_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Pointers to a tile that begins at a row and a column: its beginning is counted in 64 bits, the rest in 32."""
    begin = base + tl.cast(row, tl.int64) * row_stride + tl.cast(column, tl.int64) * column_stride
    return begin + (tl.arange(0, ROWS)[:, None] * row_stride + tl.arange(0, COLUMNS)[None, :] * column_stride)


@triton.jit
def inside(row, column, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """What of a tile lies in a matrix of so many rows and columns."""
    return (row + tl.arange(0, ROWS) < rows)[:, None] & (column + tl.arange(0, COLUMNS) < columns)[None, :]


@triton.jit
def corner(rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """This program's plane, in 64 bits, and where its tile of the plane begins."""
    across = tl.cdiv(columns, COLUMNS)
    tiles = tl.cdiv(rows, ROWS) * across
    plane, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    return plane.to(tl.int64), tile // across * ROWS, tile % across * COLUMNS


@triton.jit
def kept(seed, numbers, rate):
    """What dropout multiplies some numbers by, told apart by 64 bits: 0, or 1 / (1 - rate)."""
    return tl.where(tl.rand(tl.load(seed), numbers) < rate, 0.0, 1.0 / (1.0 - rate))


@triton.jit
def standardised(values, epsilon, D, BD: tl.constexpr):
    """Values [rows, BD] with zero mean and unit variance over D channels, zero behind them, and 1 / deviation."""
    mean = tl.sum(values, 1) / D
    centred = tl.where((tl.arange(0, BD) < D)[None, :], values - mean[:, None], 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / D + epsilon)
    return centred * inverse[:, None], inverse


@triton.jit
def standardised_backward(grads, normal, inverse, D):
    """The gradient of what was standardised, of that of the result, which is zero behind D channels."""
    mean = tl.sum(grads, 1) / D
    slope = tl.sum(grads * normal, 1) / D
    return (grads - mean[:, None] - normal * slope[:, None]) * inverse[:, None]


def draw_seed(sample: Tensor, rate: float) -> Tensor | None:
    """What the numbers that dropout keeps depend on, int64 [1]; None where it keeps all."""
    return torch.randint(2**31, (1,), device=sample.device) if rate else None


def launch_constants(sample: Tensor, mask: Tensor | None, seed: Tensor | None, warps: int) -> dict[str, Any]:
    """What a kernel is compiled for, by what it reads, its mask, and the seed of its dropout."""
    return {
        "MASKED": mask is not None,
        "DROPS": seed is not None,
        "PRECISION": product_precision(sample),
        "SUM": accumulator(sample.dtype),
        "num_warps": warps,
    }


def accumulator(dtype: torch.dtype) -> Any:
    """What a kernel sums in, as Triton's dtype: float32, or float64 where the values are."""
    return tl.float64 if dtype == torch.float64 else tl.float32


def product_precision(sample: Tensor) -> str:
    """How products of float32 are computed: as torch's own are, by `torch.backends.cuda.matmul.allow_tf32`."""
    return "tf32" if sample.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32 else "ieee"
