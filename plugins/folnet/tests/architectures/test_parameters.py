"""The ready specs have as many parameters as the published models."""

from __future__ import annotations

import pytest
import torch

import peirce
from peirce.registry import Registry

ENCODERS = {
    "folnet-table3-03": 111_201_840,
    "folnet-table3-04": 110_810_184,
    "folnet-table3-06": 125_007_192,
    "folnet-table3-09": 111_452_800,
    "folnet-table3-10": 111_601_024,
    "folnet-table3-11": 118_748_032,
    "folnet-table3-12": 125_893_504,
    "folnet-table3-13": 140_108_416,
    "folnet-table3-14": 139_187_496,
    "folnet-large": 439_553_664,
}
"""Embeddings, layers and pooler of the published code, without heads."""

PRINTED = {
    "bert-base": 110, "folnet-table3-05": 110, "folnet-table3-07": 109, "folnet-table3-08": 109,
    "folnet-table3-15": 138,
}  # fmt: skip
"""Millions, as FOLNet's Tables 3 and 4 print the others."""


def model_of(name: str, registry: Registry) -> peirce.Model:
    with torch.device("meta"):
        return peirce.build(name, registry=registry)


def count(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_have_the_published_size(name: str, registry: Registry) -> None:
    assert count(model_of(name, registry).network) == ENCODERS[name]


@pytest.mark.parametrize("name", PRINTED)
def test_sizes_are_near_the_printed_ones(name: str, registry: Registry) -> None:
    assert count(model_of(name, registry).network) == pytest.approx(PRINTED[name] * 1e6, rel=0.02)


def test_heads_add_what_they_should(registry: Registry) -> None:
    assert count(model_of("folnet-base", registry)) == 140_733_322
