"""Parts as functions of ONNX: the layers share them, and the file computes what the flat one does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.inliner import inline_local_functions
from small_specs import FOLNET, TRANSFORMER

import peirce

SHARED = FOLNET.replace(
    {"model.architecture": "relational", "model.options.share": True, "model.heads": [{"use": "mlm"}]}
)


@pytest.mark.parametrize("spec", [FOLNET, TRANSFORMER, SHARED], ids=lambda spec: spec.architecture)
def test_layers_call_the_function_of_each_part(spec: peirce.Spec, tmp_path: Path) -> None:
    model = peirce.build(spec, seed=0)
    for functions in (False, True):
        peirce.export(model, path=tmp_path / f"{functions}.onnx", functions=functions)
    flat, called = (onnx.load(tmp_path / f"{functions}.onnx") for functions in (False, True))
    names = {f"{function.domain}::{function.name}" for function in called.functions}
    calls = Counter(node.domain for node in called.graph.node if node.domain)
    assert any(each.startswith("peirce.") for each in names)
    assert sum(calls.values()) > len(names), "the layers share no function"
    assert not any("operators." in node.name and not node.domain for node in called.graph.node)
    assert len(inline_local_functions(called).graph.node) >= len(flat.graph.node) > len(called.graph.node)
    feeds = {"input_ids": np.array([[5, 3, 2], [1, 4, 4]])}
    found = []
    for functions in (False, True):
        with peirce.Session(tmp_path / f"{functions}.onnx") as session:
            found.append(session.run(feeds))
    for name, expected in found[0].items():
        np.testing.assert_array_equal(found[1][name], expected)
