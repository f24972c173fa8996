"""Feed-forward networks against their formulas, term by term."""

from __future__ import annotations

import math

import pytest
import torch
from small_specs import FOLNET, TRANSFORMER

import peirce
from peirce.algebra import Predicates, Scope
from peirce.parts import Dims
from peirce.registry import Registry
from peirce_basics.operators.feedforward import KINDS

DIMS = Dims(layers=1, unary=3, feedforward_unary=4, vocabulary=9)


def _sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def _gelu(z: float) -> float:
    return z * 0.5 * (1 + math.erf(z / math.sqrt(2)))


def _tanh(z: float) -> float:
    return z * 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))


FORMULAS = {
    "gelu": _gelu, "relu": lambda z: max(z, 0.0), "silu": lambda z: z * _sigmoid(z),
    "reglu": lambda z: max(z, 0.0), "geglu": _gelu, "swiglu": lambda z: z * _sigmoid(z),
}  # fmt: skip


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", [*FORMULAS, "gelu tanh", "geglu tanh"])
def test_a_network_is_its_formula(name: str, bias: bool) -> None:
    name, _, tanh = name.partition(" ")
    kind = KINDS[name]
    torch.manual_seed(0)
    part = kind(kind.Options(bias=bias, **({"tanh": True} if tanh else {})), DIMS).double()
    assert all(bias or "bias" not in key for key in part.state_dict())
    function = _tanh if tanh else FORMULAS[name]
    atoms = torch.randn(1, 2, 3).double()
    maps = {
        role: (values.weight.tolist(), values.bias.tolist() if bias else [0.0] * len(values.weight))
        for role, values in part.unary.named_children()
    }

    def mapped(role: str, values: list[float]) -> list[float]:
        rows = zip(*maps[role], strict=True)
        return [sum(w * v for w, v in zip(row, values, strict=True)) + shift for row, shift in rows]

    expected = []
    for atom in atoms[0].tolist():
        hidden = mapped("hidden", atom)
        if kind.gated:
            gates = mapped("gate", atom)
            hidden = [function(gate) * value for gate, value in zip(gates, hidden, strict=True)]
        else:
            hidden = [function(value) for value in hidden]
        expected.append(mapped("output", hidden))
    found = part(Predicates(atoms), Scope())
    assert torch.allclose(found.unary[0], torch.tensor(expected).double(), atol=1e-12)
    assert found.binary is None


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("spec", [TRANSFORMER, FOLNET], ids=lambda spec: spec.architecture)
def test_a_spec_names_it(spec: peirce.Spec, name: str, registry: Registry) -> None:
    model = peirce.build(spec.replace({"model.operators.state": [name]}), registry=registry)
    assert [planned.name for planned in model.plan.state] == [name]
    ids = torch.randint(40, (2, 5), generator=torch.Generator().manual_seed(0))
    assert model(input_ids=ids)["unary"].shape[:2] == (2, 5)
