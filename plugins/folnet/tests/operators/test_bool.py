"""bool's two forms, against the formulas as they stand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from small_specs import FOLNET

from peirce.algebra import Predicates, Scope
from peirce.compose import resolve
from peirce.parts import Dims
from peirce.registry import Registry
from peirce_folnet.operators.bool import Bool, BoolOptions

DIMS = Dims(
    layers=1,
    unary=6,
    binary=4,
    heads=2,
    head_size=3,
    feedforward_unary=10,
    feedforward_binary=8,
    vocabulary=9,
)


@pytest.mark.parametrize("activation", ["gelu", "reglu"])
def test_the_binary_form_reads_a_relation_beside_its_converse(activation: str) -> None:
    torch.manual_seed(0)
    operator = Bool(BoolOptions(activation=activation), DIMS).double()
    state = Predicates(torch.randn(2, 5, 6).double(), torch.randn(2, 5, 5, 4).double())
    increment = operator(state, Scope())
    parameters = dict(operator.binary.named_parameters()) | {
        f"converse.{name}": value for name, value in operator.converse.named_parameters()
    }
    both = torch.cat([state.binary, state.binary.transpose(1, 2)], -1)
    hidden = both @ parameters["hidden.weight"].T + parameters["hidden.bias"]
    if activation == "gelu":
        hidden = 0.5 * hidden * (1 + torch.erf(hidden / 2**0.5))
    else:
        hidden = hidden * (both @ parameters["gate.weight"].T + parameters["gate.bias"]).clamp_min(0)
    expected = hidden @ parameters["output.weight"].T + parameters["output.bias"]
    expected = expected + F.linear(
        state.binary.transpose(1, 2), parameters["converse.weight"], parameters["converse.bias"]
    )
    assert torch.allclose(increment.binary, expected, atol=1e-12)
    assert increment.unary.shape == state.unary.shape


def test_one_branch_is_enough() -> None:
    operator = Bool(BoolOptions(), Dims(**{**DIMS.known(), "binary": 0, "feedforward_binary": 0}))
    assert operator(Predicates(torch.randn(2, 5, 6)), Scope()).binary is None
    assert all(name.startswith("unary.") for name, _ in operator.named_parameters())


def test_the_older_name_of_the_activation_is_read(registry: Registry) -> None:
    options = [
        resolve(FOLNET.replace({"model.operators.options.bool": {name: "reglu"}}), registry).state[0].options
        for name in ("mlp", "activation")
    ]
    layer = [{"use": "join"}, {"use": "bool", "activation": "reglu"}]
    options.append(resolve(FOLNET.replace({"model.operators.layer": layer}), registry).state[0].options)
    assert options == [BoolOptions(activation="reglu")] * 3
