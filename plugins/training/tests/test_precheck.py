"""Mistakes in a spec that no data can put right come back before data are prepared, all at once."""

from __future__ import annotations

import pytest
from peirce.errors import PlanError
from peirce.registry import Registry
from peirce_training.precheck import precheck
from small_specs import FOLNET

TABLES = [{"use": "jion"}, {"use": "cjoin", "premiss": "paper"}]


def test_each_operator_that_layers_name_is_looked_up(registry: Registry) -> None:
    layers = [{"layer": TABLES}, {"layer": "j.a", "state": ["boole", {"use": "bool", "activaton": "gelu"}]}]
    spec = FOLNET.replace({"model.operators": {"layers": layers, "options": {"asoc": {}}}})
    with pytest.raises(PlanError) as refused:
        precheck(spec, registry)
    problems = str(refused.value).splitlines()
    for problem, nearest in zip(problems, ("assoc", "join", "premise", "bool", "activation"), strict=True):
        assert f"Did you mean '{nearest}'" in problem


def test_the_operators_of_every_layer_are_looked_up(registry: Registry) -> None:
    with pytest.raises(PlanError, match=r"'boole'.*'bool'"):
        precheck(FOLNET.replace({"model.operators.state": ["boole"]}), registry)
    with pytest.raises(PlanError, match=r"'jion'.*\n.*'premiss'"):
        precheck(FOLNET.replace({"model.operators.layer": TABLES}), registry)
    precheck(FOLNET.replace({"model.operators.layer": "jm.at", "model.operators.state": "bool"}), registry)
