"""Work on binary atoms by blocks that stay in a CPU's cache.

A branch of [b, x, y, d] atoms is far larger than a cache. What is computed from each pair alone need not be written for
all pairs at once. Blocks are for CPUs alone: a GPU is faster with few large products, and a traced graph must not
depend on the length. In training the backward pass recomputes a block's intermediate results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from peirce.algebra import at_least_float32
from peirce.kernels import sizes

ALIKE = 0.5
"""An example with a smaller share of the longest one's pairs begins a new portion, unless the portion is small."""


def uses_blocks(atoms: Tensor) -> bool:
    """Whether binary atoms are worked on in blocks in this pass, without gradients."""
    return _is_inference(atoms) and _is_large(atoms)


def uses_blocks_in_training(atoms: Tensor) -> bool:
    """Whether binary atoms are worked on in blocks in this pass, with gradients."""
    return on_cpu(atoms) and torch.is_grad_enabled() and _is_large(atoms)


def blocks(atoms: Tensor, channels: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of examples b and rows x of [b, x, y, d] atoms, for intermediate results of `channels` channels.

    A block is contiguous in memory: some rows of one example, or all rows of some.
    """
    batch, rows, columns, _ = atoms.shape
    step = max(1, sizes.BLOCK_BYTES // max(1, columns * channels * atoms.element_size()))
    examples = max(1, step // max(1, rows))
    for item in range(0, batch, examples):
        for start in range(0, rows, step):
            yield slice(item, min(item + examples, batch)), slice(start, min(start + step, rows))


def channels_first(values: Tensor) -> Tensor:
    """[b, x, a, c] as [b, c, x, a], for a product over tokens in each channel.

    A CPU copies operands that are not contiguous one matrix after the other, in 64 channels 64 times. Without
    gradients, which would keep the copy, they are copied at once.
    """
    moved = values.permute(0, 3, 1, 2)
    return moved.contiguous() if _is_inference(values) else moved


def product_by_channel(left: Tensor, right: Tensor) -> Tensor:
    """A product over tokens in each channel: [b, x, a, c], [b, a, y, c] -> [b, x, y, c].

    Channels come before examples, as readers whose tokens are last have them in memory: such operands are not copied.
    """
    one, other = (values.permute(3, 0, 1, 2) for values in (left, right))
    if _is_inference(left):
        one, other = one.contiguous(), other.contiguous()
    return (one @ other).permute(1, 2, 3, 0)


def on_cpu(sample: Tensor) -> bool:
    """Whether a CPU computes with a tensor, in a pass that is not traced."""
    return sample.device.type == "cpu" and not torch.compiler.is_compiling()


def portions(sample: Tensor, lengths: Tensor, width: int) -> list[Tensor]:
    """Split a batch into the examples that go through the layers together, for binary atoms [b, length, length, width].

    The longest come first, and the others of a large portion have at least half as many pairs.

    Args:
        sample: a tensor of the atoms' dtype.
        lengths: tokens of each example, padding after the last one left out: int64 [b].
        width: channels of a pair.

    Returns:
        The indices of the examples of each portion, ascending: int64 [b of the portion].
    """
    order = lengths.argsort(descending=True, stable=True)
    pairs = [length * length for length in lengths[order].tolist()]
    found, start = [], 0
    for row in range(1, len(pairs) + 1):
        most = max(1, sizes.PORTION_BYTES // max(1, pairs[start] * width * sample.element_size()))
        shorter = row < len(pairs) and pairs[row] < ALIKE * pairs[start]
        if row == len(pairs) or row - start >= most or (shorter and 4 * (row - start) >= most):
            found.append(order[start:row].sort().values)
            start = row
    return found


def _is_inference(atoms: Tensor) -> bool:
    return on_cpu(atoms) and not torch.is_grad_enabled()


def _is_large(atoms: Tensor) -> bool:
    return atoms.numel() * atoms.element_size() > sizes.BLOCK_BYTES


Block = tuple[slice, slice]
"""Some rows of one example, or all rows of some examples."""
Compute = Callable[..., Sequence[Tensor]]
"""Takes a block's examples and rows, then what the block has of each tensor; gives what it has of each result."""


def in_blocks(
    compute: Compute,
    places: Sequence[Tensor],
    *,
    channels: int,
    rows: Sequence[Tensor],
    items: Sequence[Tensor] = (),
    whole: Sequence[Tensor | None] = (),
    random: bool = False,
) -> Sequence[Tensor]:
    """Compute block by block.

    Args:
        compute: what is computed; it may use no tensor that wants a gradient but those that it is given.
        places: where the results go, empty tensors [b, x, ...].
        channels: of the widest intermediate result of a pair.
        rows: [b, x, ...] each, of which a block has its own rows; the first are binary atoms, [b, x, y, d].
        items: [b, ...] each, of which a block has all rows of its own examples.
        whole: what each block has whole, such as weights.
        random: whether random numbers are drawn; the backward pass then redraws the same ones.

    Returns:
        The results, in their places.
    """
    work = _Work(compute, channels, (len(rows), len(rows) + len(items)), random)
    tensors = (*rows, *items, *whole)
    if not torch.is_grad_enabled():
        work.fill(places, tensors)
        return places
    found: Sequence[Tensor] = _InBlocks.apply(work, places, *tensors)  # type: ignore[no-untyped-call]
    return found


class _Work(NamedTuple):
    """What is computed. Tensors before the first of `ends` are cut by rows, those before the second by examples."""

    compute: Compute
    channels: int
    ends: tuple[int, int]
    random: bool

    def blocks(self, tensors: Sequence[Tensor | None]) -> Iterator[Block]:
        """The blocks of the atoms, which are the first of the tensors."""
        atoms = tensors[0]
        assert atoms is not None
        return blocks(atoms, self.channels)

    def is_cut(self, place: int) -> bool:
        """Whether each block has rows of its own of the tensor at a place."""
        return place < self.ends[0]

    def cut(self, place: int, tensor: Tensor, block: Block) -> Tensor:
        """The part of the tensor at a place that belongs to a block."""
        if self.is_cut(place):
            return tensor[block]
        return tensor[block[0]] if place < self.ends[1] else tensor

    def fill(self, places: Sequence[Tensor], tensors: Sequence[Tensor | None]) -> list[Tensor]:
        """Write the results to their places; return the random state before each block, where numbers are drawn."""
        states = []
        for block in self.blocks(tensors):
            if self.random:
                states.append(torch.get_rng_state())
            parts = [None if t is None else self.cut(i, t, block) for i, t in enumerate(tensors)]
            for place, result in zip(places, self.compute(*block, *parts), strict=True):
                place[block] = result
        return states


class _InBlocks(Function):
    """The autograd function of `in_blocks`: tensors -> results."""

    @staticmethod
    def forward(
        ctx: Any, work: _Work, places: Sequence[Tensor], *tensors: Tensor | None
    ) -> tuple[Tensor, ...]:
        ctx.work = work
        ctx.autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        ctx.states = work.fill(places, tensors)
        return tuple(places)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        tensors: tuple[Tensor | None, ...] = ctx.saved_tensors
        wanted = {i: t for i, t in enumerate(tensors) if t is not None and ctx.needs_input_grad[i + 2]}
        differentiate = _differentiable_gradients if torch.is_grad_enabled() else _sum_gradients
        found = differentiate(ctx, tensors, wanted, grads)
        return None, None, *(found.get(i) for i in range(len(tensors)))


Tensors = Sequence[Tensor | None]
Gradients = dict[int, Tensor]
"""Gradients by the numbers of their tensors; a tensor that no result depends on is left out."""


def _sum_gradients(ctx: Any, tensors: Tensors, wanted: Mapping[int, Tensor], grads: Tensors) -> Gradients:
    """The gradients of the wanted tensors by their numbers, each block's put or added where it belongs."""
    work: _Work = ctx.work
    sums: Gradients = {}
    for number, block in enumerate(work.blocks(tensors)):
        parts = [None if t is None else work.cut(i, t, block).detach() for i, t in enumerate(tensors)]
        leaves = {
            i: part.requires_grad_() for i, part in enumerate(parts) if part is not None and i in wanted
        }
        results, result_grads = _recompute(ctx, number, block, parts, grads)
        found = torch.autograd.grad(results, list(leaves.values()), result_grads, allow_unused=True)
        for i, grad in zip(leaves, found, strict=True):
            if grad is None:  # of this block, and so of every other
                continue
            if i not in sums:
                # What several blocks add to is not summed in half precision.
                whole = wanted[i]
                sums[i] = (
                    torch.empty_like(whole) if work.is_cut(i) else torch.zeros_like(at_least_float32(whole))
                )
            place = work.cut(i, sums[i], block)
            if work.is_cut(i):
                place.copy_(grad)
            else:
                place.add_(grad)
    return {i: total.to(wanted[i].dtype) for i, total in sums.items()}


def _differentiable_gradients(
    ctx: Any, tensors: Tensors, wanted: Mapping[int, Tensor], grads: Tensors
) -> Gradients:
    """The gradients of the blocks by operations that are themselves differentiable."""
    work: _Work = ctx.work
    every: list[tuple[Tensor, Tensor]] = []
    for number, block in enumerate(work.blocks(tensors)):
        parts = [None if t is None else work.cut(i, t, block) for i, t in enumerate(tensors)]
        every.extend(zip(*_recompute(ctx, number, block, parts, grads), strict=True))
    results, result_grads = zip(*every, strict=True)
    found = torch.autograd.grad(
        results, list(wanted.values()), result_grads, create_graph=True, allow_unused=True
    )
    return {i: grad for i, grad in zip(wanted, found, strict=True) if grad is not None}


def _recompute(
    ctx: Any, number: int, block: Block, parts: Tensors, grads: Tensors
) -> tuple[list[Tensor], list[Tensor]]:
    """A block's results, recomputed with the autocast and the random numbers of the first time, and their gradients."""
    work: _Work = ctx.work
    with (
        torch.enable_grad(),
        torch.autocast("cpu", cache_enabled=False, **ctx.autocast),
        torch.random.fork_rng(devices=[], enabled=work.random),
    ):
        if work.random:
            torch.set_rng_state(ctx.states[number])
        every = zip(work.compute(*block, *parts), grads, strict=True)
        known = [(result, grad) for result, grad in every if grad is not None and result.requires_grad]
    return [result for result, _ in known], [grad[block].to(result.dtype) for result, grad in known]
