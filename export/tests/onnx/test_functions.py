"""Parts as functions of ONNX: the layers share them, and the file computes what the flat one does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest
from onnx.inliner import inline_local_functions
from small_specs import FOLNET, TRANSFORMER

import peirce
from peirce_export.onnx.exporter import domain_of

SHARED = FOLNET.replace(
    {"model.architecture": "relational", "model.options.share": True, "model.heads": [{"use": "mlm"}]}
)


@pytest.mark.parametrize(
    "spec",
    [
        FOLNET.replace({"model.operators": {"layer": "jm"}, "model.heads": [{"use": "mlm"}]}),
        pytest.param(FOLNET, marks=pytest.mark.thorough),
        pytest.param(TRANSFORMER, marks=pytest.mark.thorough),
        pytest.param(SHARED, marks=pytest.mark.thorough),
    ],
    ids=["two operators", "folnet", "transformer", "relational"],
)
def test_layers_call_the_function_of_each_part(spec: peirce.Spec, tmp_path: Path) -> None:
    model, path = peirce.build(spec, seed=0), tmp_path / "model.onnx"
    assert peirce.export(model, path=path, functions=True).passed  # it computes what the model computes
    called = onnx.load(path)
    names = {f"{function.domain}::{function.name}" for function in called.functions}
    calls = Counter(node.domain for node in called.graph.node if node.domain)
    # A transformer's assoc and join are peirce-folnet's, too.
    assert any(each.startswith("peirce.folnet::") for each in names)
    assert sum(calls.values()) > len(names), "the layers share no function"
    assert not any("operators." in node.name and not node.domain for node in called.graph.node)
    assert len(inline_local_functions(called).graph.node) > len(called.graph.node)


@pytest.mark.parametrize(
    ("plugin", "domain"),
    [
        ("peirce-folnet:folnet", "peirce.folnet"),
        ("my-lab:parts", "my.lab.parts"),
        ("module:a.b", "module.a.b"),
    ],
)
def test_a_domain_follows_the_plugin(plugin: str, domain: str) -> None:
    assert domain_of(plugin) == domain
