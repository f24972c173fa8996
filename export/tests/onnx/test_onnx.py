"""The exporter: what the file holds, where it appears, and what happens when it fails."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hand_model import SIGNATURE, Hand
from onnx import TensorProto
from small_specs import TRANSFORMER
from torch import Tensor

from peirce import Session, build
from peirce.errors import ExportError, ModelFileError, WriteError
from peirce.model import example_sizes
from peirce_export import cases
from peirce_export.failures import DimMismatch, NameMismatch, ValueMismatch
from peirce_export.metadata import Metadata
from peirce_export.onnx.exporter import OnnxExporter, OnnxOptions, trace, write
from peirce_export.report import Verification
from peirce_export.runtimes import find_runtime


def _export(model: Any, path: Path, **options: Any) -> Verification:
    return OnnxExporter(OnnxOptions(**options)).export(model, path)


def test_the_file_says_what_it_is(hand: Hand, hand_file: Path) -> None:
    properties = {entry.key: entry.value for entry in onnx.load(str(hand_file)).metadata_props}
    metadata = Metadata.from_properties(properties, "hand")
    assert metadata.signature == hand.signature
    assert metadata.spec == hand.spec.to_toml()
    assert metadata.provenance == hand.provenance
    assert (metadata.precision, metadata.opset_requested, metadata.opset_actual) == ("float32", 20, 20)
    assert metadata.versions["torch"] == version("torch")
    assert json.loads(properties["peirce.signature"])["inputs"][0]["high"] == 11


def test_nothing_of_the_machine_is_in_the_file(hand_file: Path) -> None:
    content = hand_file.read_bytes()
    for word in (str(Path(__file__).parent), str(Path(torch.__file__).parent), "stack_trace"):
        assert word.encode() not in content
    names = {tensor.name for tensor in onnx.load(str(hand_file)).graph.initializer}
    assert {"tokens.weight", "levels.weight", "query.bias"} <= names, "weights keep their names"


def test_the_same_model_gives_the_same_bytes(hand: Hand, hand_file: Path, tmp_path: Path) -> None:
    write(trace(hand, 20, "float32"), tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == hand_file.read_bytes()


def test_export_does_not_change_the_model(tmp_path: Path) -> None:
    model = Hand().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    _export(model, tmp_path / "m.onnx", precision="float16")
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize("opset", [17, 26])
def test_other_opsets(hand: Hand, tmp_path: Path, opset: int) -> None:
    report = _export(hand, tmp_path / "m.onnx", opset=opset)
    assert report.passed
    assert report.opset_requested == report.opset_actual == opset
    assert onnx.load(str(tmp_path / "m.onnx")).opset_import[0].version == opset


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"opset": 16}, r"'opset' must be in \(17, 18"),
        (
            {"precision": "int2"},
            r"'precision' must be in \(None, 'float32', 'float16', 'bfloat16', 'int8', 'int4'\)",
        ),
        ({"seed": -1}, "'seed' must be >= 0: -1"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        OnnxOptions(**options)


def test_float16(hand: Hand, tmp_path: Path) -> None:
    report = _export(hand, tmp_path / "m.onnx", precision="float16")
    assert report.passed
    assert {line.dtype for line in report.lines} == {"float16"}
    # Rounding the weights costs something, and the table says what.
    assert all(line.rounded is not None and line.rounded > 0 for line in report.lines)
    softmax = next(node for node in trace(hand, 20, "float16").graph if node.op_type == "Softmax")
    assert str(softmax.outputs[0].dtype) == "FLOAT", "norms and softmaxes stay float32"
    with Session(tmp_path / "m.onnx") as session:
        feeds = cases.inputs(SIGNATURE, cases.cases(SIGNATURE, {})[1], 0, np.dtype(np.float16))
        assert session.run(feeds)["unary"].dtype == np.float16


def test_bfloat16_is_checked_on_a_widened_copy(hand: Hand, tmp_path: Path) -> None:
    report = _export(hand, tmp_path / "m.onnx", precision="bfloat16")
    assert report.passed
    assert "copy of it cast to float32" in " ".join(report.notes)
    graph = onnx.load(str(tmp_path / "m.onnx")).graph
    assert {node.type.tensor_type.elem_type for node in graph.output} == {TensorProto.BFLOAT16}
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_whole_numbers_are_clipped_as_every_provider_does(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    _export(build(TRANSFORMER.replace({"model.dims.layers": 1}), seed=3), file)
    nodes = onnx.load(str(file)).graph.node
    assert "Max" in {node.op_type for node in nodes}
    assert [node.name for node in nodes if node.op_type == "Clip" and len(node.input) == 2] == []


def test_a_model_keeps_its_own_precision(tmp_path: Path) -> None:
    assert _export(Hand().half(), tmp_path / "m.onnx").precision == "float16"
    assert _export(Hand().double(), tmp_path / "n.onnx").precision == "float32"


def test_large_weights_lie_beside_the_file(hand: Hand, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    assert _export(hand, path, external_above=100).file == path
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    proto = onnx.load(str(path), load_external_data=False)
    places = {
        entry.value for t in proto.graph.initializer for entry in t.external_data if entry.key == "location"
    }
    assert places == {"m.onnx.data"}
    assert find_runtime(path).verify(path, hand).passed
    (tmp_path / "m.onnx.data").unlink()
    with pytest.raises(ModelFileError, match=r"m\.onnx\.data, which cannot be read: it is not there"):
        find_runtime(path).verify(path, hand)


class Wrong(Hand):
    """Says one thing while it is traced and another afterwards, as an exporter's fault would."""

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        outputs = super().forward(**inputs)
        if torch.compiler.is_compiling():
            outputs["pooled"] = outputs["pooled"] * 1.01
        return outputs


def test_a_failed_export_deletes_nothing(hand: Hand, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    _export(hand, path)
    good = path.read_bytes()
    with pytest.raises(
        ValueMismatch, match=r"'pooled' differs.*\n(.*\n)*.*kept: .*m.onnx.rejected.*"
    ) as caught:
        _export(Wrong().eval(), path, seed=3)
    assert path.read_bytes() == good
    place = tmp_path / "m.onnx.rejected"
    assert sorted(file.name for file in place.iterdir()) == ["m.failed-inputs.npz", "m.onnx"]
    assert caught.value.inputs == place / "m.failed-inputs.npz"
    assert caught.value.report is not None
    assert caught.value.report.file == place / "m.onnx"
    assert caught.value.report.seed == 3
    with pytest.raises(ValueMismatch, match=r"m.onnx.rejected-2"):
        _export(Wrong().eval(), path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "m.onnx",
        "m.onnx.rejected",
        "m.onnx.rejected-2",
    ]


class Specialised(Hand):
    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        outputs = super().forward(**inputs)
        total = outputs["pooled"]
        for token in range(inputs["input_ids"].shape[1]):
            total = total + outputs["unary"][:, token]
        return {**outputs, "pooled": total}


class Silent(Hand):
    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        outputs = super().forward(**inputs)
        del outputs["binary"]
        return outputs


class Untraceable(Hand):
    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        if float(inputs["input_ids"].sum()) > 3:
            return super().forward(**inputs)
        return super().forward(**inputs)


@pytest.mark.parametrize(
    ("model", "fault", "said", "left"),
    [
        # torch.onnx falls back to fixing the size in silence: only the check of the file finds it.
        (Specialised, DimMismatch, "dim 1 of input 'input_ids' is fixed at 5, but must", ["m.onnx.rejected"]),
        (Silent, NameMismatch, "declares binary, but the model returns only unary, pooled", []),
        (Untraceable, ExportError, "torch.onnx could not export", []),
    ],
)
def test_what_cannot_be_exported_is_told_as_what_it_is(
    model: type[Hand], fault: type[Exception], said: str, left: list[str], tmp_path: Path
) -> None:
    with pytest.raises(fault, match=said):
        _export(model().eval(), tmp_path / "m.onnx")
    assert [path.name for path in tmp_path.iterdir()] == left


def test_the_cases_differ_from_the_traced_sizes() -> None:
    traced = example_sizes(SIGNATURE)
    assert min(traced.values()) >= 2
    assert len(set(traced.values())) == len(traced)
    assert not {3, 8} & set(traced.values())  # the fixed dims of the signature
    plan = cases.cases(SIGNATURE, {"length": 64})
    assert {case.sizes["length"] for case in plan} >= {1, 7, 33}
    assert {case.sizes["batch"] for case in plan} == {1, 3, 9}
    assert all(case.sizes["length"] != traced["length"] for case in plan)
    assert {case.mask for case in plan} == {"all", "padded", "empty"}
    assert max(case.sizes["length"] for case in cases.cases(SIGNATURE, {"length": 4})) == 4


def test_the_inputs_follow_the_seed_and_the_bounds() -> None:
    case = cases.cases(SIGNATURE, {})[3]
    feeds = cases.inputs(SIGNATURE, case, 1, np.dtype(np.float32))
    again = cases.inputs(SIGNATURE, case, 1, np.dtype(np.float32))
    other = cases.inputs(SIGNATURE, case, 2, np.dtype(np.float32))
    for spec in SIGNATURE.inputs:
        array = feeds[spec.name]
        np.testing.assert_array_equal(array, again[spec.name])
        assert spec.high is None or (array.min() >= 0 and array.max() < spec.high)
    assert (feeds["input_ids"] != other["input_ids"]).any()
    real = feeds["attention_mask"]
    assert not real[0, -1]  # padded right
    assert not real[-1, 0]  # padded left
    assert real.any(1).all()
    empty = cases.inputs(SIGNATURE, cases.cases(SIGNATURE, {})[4], 1, np.dtype(np.float32))["attention_mask"]
    assert list(empty.any(1)) == [False, True, True]


def test_a_place_that_cannot_hold_a_file_is_named_before_the_work(hand: Hand, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    for path in (tmp_path / "taken", Path("/dev/null"), Path()):
        with pytest.raises(ExportError, match="is a directory or a device"):
            _export(hand, path)
    with pytest.raises(ExportError, match=r"folder .*none does not exist"):
        _export(hand, tmp_path / "none" / "m.onnx")
    assert Path("/dev/null").is_char_device()
    assert [p.name for p in tmp_path.rglob("*")] == ["taken"]


@pytest.mark.parametrize(
    ("within", "ends", "raised", "said"),
    [
        (
            "write",
            OSError(28, "No space left on device"),
            WriteError,
            "m.onnx cannot be written: No space left on device; what was there is unchanged; make room there",
        ),
        ("verify", SystemExit(143), SystemExit, "143"),
    ],
)
def test_an_export_that_cannot_end_leaves_nothing(
    within: str,
    ends: BaseException,
    raised: type[BaseException],
    said: str,
    hand: Hand,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def end(*_: object, **__: object) -> None:
        raise ends

    monkeypatch.setattr(f"peirce_export.onnx.exporter.{within}", end)
    with pytest.raises(raised, match=said):
        _export(hand, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []
