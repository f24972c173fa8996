"""The attention scores of a network's first layer, and the queries and keys that they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
import torch
from small_specs import DECODER, TRANSFORMER
from torch import Tensor

import peirce
from peirce.model import Model
from peirce.parts import PlannedOperator
from peirce.registry import Registry
from peirce.spec import Spec

IDS = torch.randint(40, (3, 7), generator=torch.Generator().manual_seed(3))
MASK = torch.tensor([[1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 0, 1]]).bool()
"""Real tokens with padding on the right, on the left and inside."""
SPECS = {
    "transformer": TRANSFORMER.replace(
        {"model.scope.kind": "causal", "model.heads": [], "model.dims.heads": 6}
    ),
    "folnet": DECODER.replace({"model.heads": [], "model.dims.head_size": 4}),
    "attention": DECODER.replace(
        {
            "model.heads": [],
            "model.dims.heads": 4,
            "model.dims.head_size": 4,
            "model.operators": {"layer": [{"use": "attention", "kv_heads": 2}]},
        }
    ),
}
"""Causal networks whose heads have 4 channels: of one branch; with FOLNet's assoc; with keys that heads share."""


class Scored(NamedTuple):
    """Queries and keys [b, x, h, s] as they meet, and the scores [b, x, a, h] with what positions add."""

    query: Tensor
    key: Tensor
    scores: Tensor


def with_position(architecture: str, *positions: Mapping[str, Any], scope: str = "causal") -> Spec:
    """A small spec with these positions inside attention, and with distances where relations begin."""
    spec = SPECS[architecture]
    others = [dict(each.options, use=each.use) for each in spec.positions if each.use == "distance"]
    return spec.replace({"model.positions": [*others, *positions], "model.scope.kind": scope})


def random_model(spec: Spec, registry: Registry, *, fuse: bool = True) -> Model:
    """A model in float64 whose parameters, whatever its positions, are of order one and the same by their names."""
    model = peirce.build(spec, registry=registry, fuse=fuse, dtype=torch.float64).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            seed = sum(map(ord, name))
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) * 0.6)
    return model


def first_scores(model: Model, monkeypatch: pytest.MonkeyPatch, **inputs: Tensor) -> Scored:
    """What the first operator that scores pairs is given and gives."""
    found: list[Scored] = []
    deduce = PlannedOperator.deduce

    def kept(self: PlannedOperator, channels: Any, *others: Any) -> Tensor:
        result = deduce(self, channels, *others)
        if self.part.pair == "score":
            found.append(Scored(*channels, result))
        return result

    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(PlannedOperator, "deduce", kept)
        model(**inputs)
    return found[0]
