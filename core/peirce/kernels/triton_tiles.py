"""What kernels in Triton's language share: where a tile lies, and which numbers dropout keeps.

Names of sides in capitals are constants of a compiled kernel, and so are `MASKED`, whether there is a mask, `DROPS`,
whether there is dropout, `PRECISION`, how float32 is multiplied, and `SUM`, the dtype of sums. Products need sides of 16.
"""

from __future__ import annotations

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


def draw_seed(sample: Tensor, rate: float) -> Tensor | None:
    """What the numbers that dropout keeps depend on, int64 [1]; None where it keeps all."""
    return torch.randint(2**31, (1,), device=sample.device) if rate else None
