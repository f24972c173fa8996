"""Methods of contracts are abstract, final, or among the few that a part may leave out."""

from __future__ import annotations

import inspect

import pytest

from peirce import model, parts

OPTIONAL = {
    "Architecture": "check check_scope check_layer upgrade gives begin own_head reference example_inputs",
    "GenerativeArchitecture": "reuses_cache",
    "Position": "reuses_cache",
    "ModulePart": "example_in example_inputs inputs begin reference",
    "PureOperator": "weights fused reference_of_atoms",
    "StateOperator": "fused terms reference",
    "RecurrentOperator": "weights fused",
    "ScopePosition": "index holds_in",
    "Augmenter": "words",
    "Head": "example_labels fit reference_loss",
    "Task": (
        "example_in example_cases suits overrides_for check terms targets remarks begin start columns_of write_report"
        " reference reference_loss reference_metrics reference_settings"
    ),
    "Exporter": "read",
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_contract_has_these_methods_with_defaults_alone(name: str) -> None:
    contract = getattr(parts, name, None) or getattr(model, name)
    found = set()
    for method, value in vars(contract).items():
        inner = getattr(value, "__func__", value)
        settled = getattr(inner, "__isabstractmethod__", False) or any(
            getattr(each, "__final__", False) for each in (inner, value)
        )
        if inspect.isfunction(inner) and not method.startswith("_") and not settled:
            found.add(method)
    assert found == set(OPTIONAL[name].split())
