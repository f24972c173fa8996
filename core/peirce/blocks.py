"""Work on binary atoms by blocks that stay in a processor's cache.

A branch of [b, x, y, d] atoms is far larger than a cache, and what is computed from each pair alone need not be written
for all pairs at once. Blocks serve a processor: a graph that is traced must not depend on the length, and a GPU is
faster with few large products. In training a block's intermediate results are computed again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

BLOCK_BYTES = 2 << 20
"""What one block's widest intermediate result may take."""
PORTION_BYTES = 8 << 20
"""What the binary atoms of the examples that go through the layers together may take.

Allocators keep tensors of this size for the next one; larger ones come from the system anew each time, page by page.
"""


def blocked(atoms: Tensor) -> bool:
    """Whether binary atoms are worked on in blocks here and now, without gradients."""
    return _in_inference(atoms) and _large(atoms)


def blocked_training(atoms: Tensor) -> bool:
    """Whether binary atoms are worked on in blocks here and now, with gradients."""
    return _on_processor(atoms) and torch.is_grad_enabled() and _large(atoms)


def blocks(atoms: Tensor, channels: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of examples b and rows x of [b, x, y, d] atoms, for intermediate results of `channels` channels.

    A block is contiguous in memory: some rows of one example, or all rows of some.
    """
    batch, rows, columns, _ = atoms.shape
    step = max(1, BLOCK_BYTES // max(1, columns * channels * atoms.element_size()))
    examples = max(1, step // max(1, rows))
    for item in range(0, batch, examples):
        for start in range(0, rows, step):
            yield slice(item, min(item + examples, batch)), slice(start, min(start + step, rows))


def portion(like: Tensor, length: int, width: int) -> int | None:
    """How many examples go through the layers together, for binary atoms of [b, length, length, width]; None for all.

    Args:
        like: a tensor of the atoms' device and dtype.
        length: tokens of an example.
        width: channels of a pair.
    """
    if not _on_processor(like):
        return None
    return max(1, PORTION_BYTES // max(1, length * length * width * like.element_size()))


def again(function: Callable[..., Tensor], *args: object) -> Tensor:
    """Call, and where gradients are wanted keep only the arguments, recomputing the rest in the backward pass."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        return checkpoint(function, *args, use_reentrant=False, preserve_rng_state=False)
    return function(*args)


def _in_inference(atoms: Tensor) -> bool:
    return _on_processor(atoms) and not torch.is_grad_enabled()


def _on_processor(atoms: Tensor) -> bool:
    return atoms.device.type == "cpu" and not torch.compiler.is_compiling()


def _large(atoms: Tensor) -> bool:
    return atoms.numel() * atoms.element_size() > BLOCK_BYTES
