"""Blocks, which the backward pass recomputes, have the results and gradients of the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from peirce.kernels import in_blocks, sizes

BATCH, ROWS, COLUMNS, WIDTH = 3, 5, 5, 2

ROW = COLUMNS * WIDTH * 8
"""Bytes of a row, in float64."""


def compute(items: slice, rows: slice, atoms: Tensor, attended: Tensor, weight: Tensor) -> list[Tensor]:
    """Relations that are composed with others, and properties, of some rows."""
    weights = atoms.softmax(2).permute(0, 3, 1, 2)
    composed = (weights @ attended.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    return [composed @ weight, (atoms * composed).sum(2)]


def tensors() -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    shapes = (BATCH, ROWS, COLUMNS, WIDTH), (BATCH, ROWS, COLUMNS, WIDTH), (WIDTH, WIDTH)
    atoms, attended, weight = (torch.randn(s, generator=draw, dtype=torch.float64) for s in shapes)
    return atoms.requires_grad_(), attended.requires_grad_(), weight.requires_grad_()


def by_blocks(atoms: Tensor, attended: Tensor, weight: Tensor) -> Sequence[Tensor]:
    places = [torch.empty_like(atoms), atoms.new_empty(BATCH, ROWS, WIDTH)]
    return in_blocks(compute, places, channels=WIDTH, rows=[atoms], items=[attended], whole=[weight])


@pytest.fixture(params=[1, 2 * ROW, 2 * ROWS * ROW], ids=["a row", "two rows", "two examples"])
def _size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "BLOCK_BYTES", request.param)


@pytest.mark.usefixtures("_size")
def test_first_and_second_derivatives_are_right() -> None:
    given_tensors = tensors()
    for own, whole in zip(
        by_blocks(*given_tensors), compute(slice(None), slice(None), *given_tensors), strict=True
    ):
        assert torch.equal(own, whole) or torch.allclose(own, whole, rtol=1e-14, atol=0)
    assert torch.autograd.gradcheck(by_blocks, given_tensors)
    assert torch.autograd.gradgradcheck(by_blocks, given_tensors, fast_mode=True)


@pytest.mark.usefixtures("_size")
def test_only_what_is_asked_for_has_a_gradient() -> None:
    atoms, attended, weight = tensors()
    attended.requires_grad_(False)
    properties = by_blocks(atoms, attended, weight)[1]  # which need no weight, and nobody uses the relations
    assert properties.grad_fn is not None
    properties.square().sum().backward()
    expected = compute(slice(None), slice(None), atoms, attended, weight)[1].square().sum()
    assert torch.allclose(atoms.grad, torch.autograd.grad(expected, atoms)[0], rtol=1e-12)
    assert attended.grad is None
    assert weight.grad is None


@pytest.mark.usefixtures("_size")
def test_recomputed_blocks_draw_the_same() -> None:
    atoms = torch.ones(BATCH, ROWS, COLUMNS, WIDTH, requires_grad=True)
    torch.manual_seed(1)
    (dropped,) = in_blocks(
        lambda items, rows, own: [F.dropout(own, 0.5)],
        [torch.empty_like(atoms)],
        channels=WIDTH,
        rows=[atoms],
        random=True,
    )
    before = torch.get_rng_state()
    dropped.sum().backward()
    assert torch.equal(atoms.grad, dropped)  # the factor of each number, 0 or 2
    assert 0 < int((dropped == 0).sum()) < dropped.numel()
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.usefixtures("_size")
def test_recomputed_blocks_have_the_same_autocast() -> None:
    weight = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(2), requires_grad=True)
    atoms = torch.randn(BATCH, ROWS, COLUMNS, WIDTH, generator=torch.Generator().manual_seed(3))
    seen = []

    def product(items: slice, rows: slice, own: Tensor, weight: Tensor) -> list[Tensor]:
        seen.append((result := own @ weight).dtype)
        return [result]

    with torch.autocast("cpu", torch.bfloat16):
        (result,) = in_blocks(
            product, [torch.empty_like(atoms)], channels=WIDTH, rows=[atoms], whole=[weight]
        )
    forward = len(seen)
    result.sum().backward()
    assert len(seen) == 2 * forward
    assert set(seen) == {torch.bfloat16}
    assert torch.allclose(weight.grad, atoms.flatten(0, 2).sum(0).unsqueeze(1).expand_as(weight), rtol=0.02)


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 400))
def test_a_block_keeps_nothing(batch: int, length: int, size: int) -> None:
    """What the graph holds is what went in, however much a block computes."""
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    def deep(items: slice, rows: slice, own: Tensor) -> list[Tensor]:
        for _ in range(5):
            own = own.exp().tanh()
        return [own]

    def bytes_kept(way: Callable[[Tensor], object]) -> int:
        kept.clear()
        atoms = torch.zeros(batch, length, length, WIDTH, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            way(atoms)
        return sum(tensor.nbytes for tensor in kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "BLOCK_BYTES", size)
        own = bytes_kept(
            lambda atoms: in_blocks(deep, [torch.empty_like(atoms)], channels=WIDTH, rows=[atoms])
        )
    pair = batch * length * length * WIDTH * 4
    assert own == pair
    assert bytes_kept(lambda atoms: deep(slice(None), slice(None), atoms)) == 10 * pair
