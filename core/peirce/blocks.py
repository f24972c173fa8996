"""Work on binary atoms by blocks of rows that stay in a processor's cache.

A branch of [b, x, y, d] atoms is far larger than a cache, and what is computed from each pair alone need not be written
for all pairs at once. Blocks serve inference on a processor: with gradients the intermediate results are kept anyway,
a graph that is traced must not depend on the length, and a GPU is faster with few large products.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

BLOCK_BYTES = 2 << 20
"""What one block's widest intermediate result may take."""


def blocked(atoms: Tensor) -> bool:
    """Whether binary atoms are worked on in blocks here and now."""
    return atoms.device.type == "cpu" and not torch.is_grad_enabled() and not torch.compiler.is_compiling()


def row_blocks(atoms: Tensor, channels: int) -> Iterator[slice]:
    """Blocks of rows x of [b, x, y, d] atoms, for intermediate results of `channels` channels."""
    batch, rows, columns, _ = atoms.shape
    row_bytes = batch * columns * channels * atoms.element_size()
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
