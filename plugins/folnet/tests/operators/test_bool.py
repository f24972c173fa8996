"""bool on one branch, and the older name of its option."""

from __future__ import annotations

import torch
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
