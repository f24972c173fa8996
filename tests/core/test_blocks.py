"""Inference by blocks of rows gives what one pass over all rows gives, whatever the scope and the block's size."""

from __future__ import annotations

import peirce
import pytest
import torch
from peirce import blocks
from peirce.registry import Registry
from small_specs import FOLNET, PAPER_CJOIN

IDS = torch.randint(1, 40, (2, 9), generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[True] * 9, [False] * 3 + [True] * 6])


@pytest.mark.parametrize("size", [1, 3_000, 1 << 30], ids=["one row", "a few rows", "all rows"])
@pytest.mark.parametrize("kind", ["bidirectional", "causal", "prefix", "relation"])
@pytest.mark.parametrize("mlp", ["gelu", "reglu"])
def test_blocks_change_nothing(
    size: int, kind: str, mlp: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = FOLNET.replace({"model.scope.kind": kind, **PAPER_CJOIN}).replace(
        {"model.operators.options.bool": {"mlp": mlp}}
    )
    model = peirce.build(spec, registry=registry, dtype=torch.float64).eval()
    inputs = {"input_ids": IDS, "attention_mask": MASK}
    if kind == "prefix":
        inputs["prefix_length"] = torch.tensor([3, 0])
    if kind == "relation":
        inputs["relation"] = torch.rand(2, 9, 9, generator=torch.Generator().manual_seed(1)) > 0.4
    whole = model(**inputs)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    with torch.no_grad():
        apart = model(**inputs)
    for name, value in whole.items():
        assert (value - apart[name]).abs().max() <= 1e-12 * value.abs().max(), name


def test_blocks_cover_every_row_once() -> None:
    atoms = torch.empty(2, 7, 5, 3)
    for channels in (1, 40, 1 << 24):
        rows = [x for block in blocks.row_blocks(atoms, channels) for x in range(7)[block]]
        assert rows == list(range(7))
