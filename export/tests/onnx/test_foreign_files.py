"""Files that Peirce did not write, or that were changed since: each is refused in one line, or runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import exit_code
from hand_model import Hand
from onnx import TensorProto, helper

from peirce import Session
from peirce.errors import ModelFileError
from peirce_export.cases import Case, inputs
from peirce_export.onnx.exporter import trace, write
from peirce_export.self_check import self_check

REAL = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch"])
TENSOR: dict[str, Any] = {"dtype": "float", "dims": ["batch"]}
SIGNATURE = {"inputs": [{"name": "x", **TENSOR}], "outputs": [{"name": "y", **TENSOR}]}


def served(path: Path, kind: onnx.TypeProto = REAL, **changed: str) -> onnx.ModelProto:
    """A file whose graph gives its input again, with the properties of an exported file."""
    values = [helper.make_value_info(name, kind) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    properties = {
        "format": "1",  # without a digest
        "spec": "format = 1\n[model]\nname = 'foreign'\n",
        "provenance": "{}",
        "signature": json.dumps(SIGNATURE),
        "precision": "float32",
        "opset.requested": "21",
        "opset.actual": "21",
    }
    helper.set_model_props(
        model, {f"peirce.{name}": text for name, text in {**properties, **changed}.items()}
    )
    path.write_bytes(model.SerializeToString())
    return model


def test_a_file_that_does_what_it_says_passes_alone(tmp_path: Path) -> None:
    path = tmp_path / "foreign.onnx"
    served(path)
    assert self_check(path).passed


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (helper.make_tensor_type_proto(TensorProto.STRING, ["batch"]), "string"),
        (helper.make_tensor_type_proto(TensorProto.DOUBLE, ["batch"]), "double"),
        (helper.make_sequence_type_proto(REAL), "no tensor but sequence"),
    ],
)
def test_types_that_the_signature_does_not_name_are_refused(
    kind: onnx.TypeProto, said: str, tmp_path: Path
) -> None:
    served(tmp_path / "foreign.onnx", kind)
    with pytest.raises(ModelFileError) as refused:
        Session(tmp_path / "foreign.onnx")
    assert f"input 'x' is {said}, but the signature says float" in str(refused.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"format": "9"},
        {"format": "²"},
        {"spec": "extend = '/etc/passwd'"},
        {"spec": "no TOML"},
        {"provenance": "[]"},
        {"provenance": "[" * 100_000},
        {"precision": "float8"},
        {"opset.actual": "many"},
        {"role": "top-0"},
        {"weights": "0" * 63},
        {"quantisation": "some"},
        {"signature": "{}"},
        {"signature": json.dumps({**SIGNATURE, "inputs": []})},
        {"signature": json.dumps({**SIGNATURE, "inputs": [{"name": "x", **TENSOR, "dims": [0]}]})},
        {"signature": json.dumps({**SIGNATURE, "inputs": [{"name": "x", **TENSOR, "dims": [None]}]})},
    ],
)
def test_properties_that_are_none_are_refused_in_one_line(
    changed: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "foreign.onnx"
    served(path, **changed)
    assert exit_code("verify", path, "--alone") == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path} has ")
    assert (said.count("\n"), len(said) < 700) == (1, True)


def test_weights_elsewhere_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "foreign.onnx"
    model = served(path)
    weights = model.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    entry = weights.external_data.add(key="location")
    (tmp_path / "short").write_bytes(b"short")
    for place in ("../outside", "/dev/zero", "none.data", "", "short"):
        entry.value = place
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ModelFileError, match=r"keeps (weights|w) in"):
            Session(path)
    for kind, dims in ((1, [-1, -1]), (99, [1]), (TensorProto.STRING, [0]), (1, [10**18])):
        weights.data_type = kind
        weights.dims[:] = dims
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ModelFileError, match="keeps w in short, which does not hold it"):
            Session(path)
    inner = model.graph.node.add(op_type="Constant", output=["c"]).attribute.add(name="value", type=4)
    inner.t.CopyFrom(weights)
    del model.graph.initializer[:]
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelFileError, match="a node has values in another file"):
        Session(path)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_an_open_session_does_not_follow_its_weights(precision: Any, hand: Hand, tmp_path: Path) -> None:
    path, data = tmp_path / "m.onnx", tmp_path / "m.onnx.data"
    write(trace(hand, 20, precision), path, external_above=100)
    real = np.dtype(precision)
    feeds = inputs(
        hand.signature, Case(name="asked", sizes=dict.fromkeys(hand.signature.symbols, 3)), 0, real
    )
    with Session(path) as session:
        expected = session.run(feeds)
        size = data.stat().st_size
        with data.open("r+b") as file:
            file.write(b"\0" * size)
        for name, array in session.run(feeds).items():
            np.testing.assert_array_equal(array, expected[name])
        data.open("wb").close()
        for name, array in session.run(feeds).items():
            np.testing.assert_array_equal(array, expected[name])
