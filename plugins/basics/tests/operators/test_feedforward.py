"""Feed-forward networks by their names in a spec."""

from __future__ import annotations

import pytest
import torch
from small_specs import FOLNET, TRANSFORMER

import peirce
from peirce.registry import Registry
from peirce_basics.operators.feedforward import KINDS


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("spec", [TRANSFORMER, FOLNET], ids=lambda spec: spec.architecture)
def test_a_spec_names_it(spec: peirce.Spec, name: str, registry: Registry) -> None:
    model = peirce.build(spec.replace({"model.operators.state": [name]}), registry=registry)
    assert [planned.name for planned in model.plan.state] == [name]
    ids = torch.randint(40, (2, 5), generator=torch.Generator().manual_seed(0))
    assert model(input_ids=ids)["unary"].shape[:2] == (2, 5)
