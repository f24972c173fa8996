"""The rewritten graph gives what the traced one gives, at masks of every kind, and lacks what it is to lack."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from onnx import load
from small_specs import FOLNET

import peirce
from peirce_export.onnx.exporter import trace, write
from peirce_export.onnx.session import OnnxFile

LAYER = {"model.operators.layer": "jm.at"}
"""The least with attention over rows and over pairs, and with what the passes remove."""


def test_a_graph_without_the_passes_that_no_operation_needs(tmp_path: Path) -> None:
    model = peirce.build(
        FOLNET.replace({**LAYER, "model.dims.layers": 1, "model.regularisation.init_std": 0.3}), seed=3
    )
    found, kinds, graphs = {}, {}, {}
    mask = np.ones((4, 9), np.bool_)
    mask[0, 5:], mask[1, :3], mask[2] = False, False, False
    ids = np.random.default_rng(0).integers(0, 40, mask.shape)
    feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    for optimized in (False, True):
        file = tmp_path / f"{optimized}.onnx"
        write(trace(model.eval(), 20, "float32", for_cpus=optimized), file)
        opened = OnnxFile(file)
        names = [spec.name for spec in opened.signature.outputs]
        found[optimized] = dict(zip(names, opened.run(feeds, names), strict=True))
        graphs[optimized] = load(str(file)).graph
        kinds[optimized] = Counter(node.op_type for node in graphs[optimized].node)
    for name, expected in found[False].items():
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(found[True][name], expected, rtol=0, atol=2e-6 * abs(expected).max())
        np.testing.assert_array_equal(found[True][name][2] == 0, expected[2] == 0)
    assert kinds[False]["Split"] > kinds[True]["Split"] == 0
    assert kinds[False]["Where"] > kinds[True]["Where"]
    axes = [a.i for n in graphs[True].node if n.op_type == "Softmax" for a in n.attribute if a.name == "axis"]
    assert axes.count(3) >= 2, "relations are normalised over their last axis"
