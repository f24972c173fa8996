"""Exports in int8 and int4: what is rounded and what is not, what the report says, and when the file is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto
from small_specs import TRANSFORMER

import peirce
from peirce.errors import ExportError
from peirce.model import Model
from peirce_export import verification
from peirce_export.failures import ValueMismatch
from peirce_export.onnx.quantising import quantise
from peirce_export.onnx.session import OnnxFile

EIGHT_BITS = {TensorProto.INT8, TensorProto.UINT8}


@pytest.fixture(scope="module")
def model() -> Model:
    return peirce.build(TRANSFORMER.replace({"model.dims.layers": 1}), seed=3).eval()


@pytest.mark.parametrize(
    ("precision", "how", "product"),
    [
        ("int8", "dynamic", "MatMulInteger"),
        pytest.param("int8", "weights", "MatMulNBits", marks=pytest.mark.thorough),
        ("int4", "weights4", "MatMulNBits"),
    ],
)
def test_products_alone_are_rounded(
    precision: str, how: str, product: str, model: Model, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    options = {"quantisation": how} if precision == "int8" else {}
    report: Any = peirce.export(model, path=path, precision=precision, **options)
    assert report.passed
    assert report.precision == precision
    assert any(note.startswith(f"{precision}, {how}") for note in report.notes)
    agreed = {line.output: line.agreement for line in report.lines}
    assert agreed["unary"] is None
    assert agreed["mlm_logits"] >= verification.AGREEMENT[precision]
    assert 0 < max(line.error for line in report.lines) <= report.lines[0].tolerance
    graph = onnx.load(str(path)).graph
    assert product in {node.op_type for node in graph.node}
    kept = {"LayerNormalization", "Softmax", "Gather"}
    narrow = {tensor.name for tensor in graph.initializer if tensor.data_type in EIGHT_BITS}
    assert narrow
    for node in graph.node:
        assert node.op_type not in kept or not narrow & set(node.input), node.name
    opened = OnnxFile(path)
    assert (opened.metadata.precision, opened.metadata.quantisation) == ("float32", how)
    again: Any = peirce.verify(path, model)
    assert (again.precision, again.passed) == (precision, True)


def test_it_is_refused_where_it_breaks_the_answers(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(verification.AGREEMENT, "int8", 1.01)  # more than any file can have
    with pytest.raises(ValueMismatch, match=r"has another best score than the model in .* of the rows"):
        peirce.export(model, path=tmp_path / "model.onnx", precision="int8", quantisation="weights")
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"precision": "int8", "quantisation": "static"},
            r"'quantisation' must be in \('dynamic', 'weights'\)",
        ),
        ({"quantisation": "weights"}, "quantisation is of precision int8, and the precision is None"),
        ({"precision": "int8", "top_k": 2}, "top_k ranks in float32, and the file would be int8"),
        ({"precision": "int4", "quantisation": "weights"}, "is of precision int8, and the precision is int4"),
        ({"precision": "int2"}, r"'precision' must be in .*'int8', 'int4'\) \(got 'int2'\)"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str, model: Model, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=message):
        peirce.export(model, path=tmp_path / "model.onnx", **options)


def test_embeddings_that_products_share_stay_as_they_are(tmp_path: Path) -> None:
    rng, value, node = np.random.default_rng(0), onnx.helper.make_tensor_value_info, onnx.helper.make_node
    tables = [onnx.numpy_helper.from_array(rng.normal(size=(11, 4)).astype(np.float32), t) for t in "ab"]
    nodes = [node("Gather", [t, "ids"], [f"{t} words"]) for t in "ab"]
    nodes += [node("Gemm", [f"{t} words", t], [f"{t} scores"], transB=1) for t in "ab"]
    ids = [value("ids", TensorProto.INT64, ["n"])]
    scores = [value(f"{t} scores", TensorProto.FLOAT, ["n", 11]) for t in "ab"]
    given = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "shared", ids, scores, tables),
        opset_imports=[onnx.helper.make_opsetid("", 20)],
        ir_version=10,
    )
    found = ir.to_proto(quantise(ir.from_proto(given), "dynamic"))
    feeds = {"ids": np.arange(11)}
    expected, rounded = (
        np.stack(ort.InferenceSession(each.SerializeToString()).run(None, feeds)) for each in (given, found)
    )
    assert np.abs(rounded - expected).max() < 0.1 * np.abs(expected).max()
