"""The exporter: what the file holds, where it appears, and what happens when it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hand_model import SIGNATURE, Hand
from onnx import TensorProto
from peirce import Session, verify
from peirce.errors import ExportError, ModelFileError, WriteError
from peirce_export import cases
from peirce_export.failures import DimMismatch, NameMismatch, ValueMismatch
from peirce_export.metadata import Metadata
from peirce_export.onnx.exporter import OnnxExporter, OnnxOptions, trace, write
from peirce_export.report import Verification
from torch import Tensor


def _export(model: Any, path: Path, **options: Any) -> Verification:
    return OnnxExporter(OnnxOptions(**options)).export(model, path)


def test_the_file_says_what_it_is(hand: Hand, hand_file: Path) -> None:
    properties = {entry.key: entry.value for entry in onnx.load(str(hand_file)).metadata_props}
    metadata = Metadata.from_properties(properties, "hand")
    assert metadata.signature == hand.signature
    assert metadata.spec == hand.spec.to_toml()
    assert metadata.provenance == hand.provenance
    assert (metadata.precision, metadata.opset_requested, metadata.opset_actual) == ("float32", 20, 20)
    assert metadata.versions["torch"] == torch.__version__
    assert json.loads(properties["peirce.signature"])["inputs"][0]["high"] == 11


def test_every_declared_input_is_an_input_and_every_symbol_a_dim(hand_file: Path) -> None:
    graph = onnx.load(str(hand_file)).graph
    found = {
        node.name: tuple(dim.dim_param or dim.dim_value for dim in node.type.tensor_type.shape.dim)
        for node in (*graph.input, *graph.output)
    }
    assert found == {spec.name: spec.dims for spec in (*SIGNATURE.inputs, *SIGNATURE.outputs)}


def test_nothing_of_the_machine_is_in_the_file(hand_file: Path) -> None:
    content = hand_file.read_bytes()
    for word in (str(Path(__file__).parent), str(Path(torch.__file__).parent), "stack_trace"):
        assert word.encode() not in content


def test_the_same_model_gives_the_same_bytes(hand: Hand, hand_file: Path, tmp_path: Path) -> None:
    write(trace(hand, 20, "float32"), tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == hand_file.read_bytes()


def test_weights_keep_their_names(hand: Hand, hand_file: Path) -> None:
    names = {tensor.name for tensor in onnx.load(str(hand_file)).graph.initializer}
    assert {"tokens.weight", "types.weight", "levels.weight", "query.bias"} <= names


def test_export_does_not_change_the_model(tmp_path: Path) -> None:
    model = Hand().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    _export(model, tmp_path / "m.onnx", precision="float16")
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize("opset", [17, 18, 23])
def test_other_opsets(hand: Hand, tmp_path: Path, opset: int) -> None:
    report = _export(hand, tmp_path / "m.onnx", opset=opset)
    assert report.passed
    assert report.opset_requested == report.opset_actual == opset
    assert onnx.load(str(tmp_path / "m.onnx")).opset_import[0].version == opset


def test_an_opset_that_nobody_tried_is_refused() -> None:
    with pytest.raises(ValueError, match=r"opset 16 is not one of 17 to 23"):
        OnnxOptions(opset=16)


def test_float16(hand: Hand, tmp_path: Path) -> None:
    report = _export(hand, tmp_path / "m.onnx", precision="float16")
    assert report.passed
    assert {line.dtype for line in report.lines} == {"float16"}
    # Rounding the weights costs something, and the table says what.
    assert all(line.rounded is not None and line.rounded > 0 for line in report.lines)
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


def test_norms_and_softmaxes_stay_float32(hand: Hand) -> None:
    graph = trace(hand, 20, "float16").graph
    softmaxes = [node for node in graph if node.op_type == "Softmax"]
    assert softmaxes
    assert {str(node.outputs[0].dtype) for node in softmaxes} == {"FLOAT"}


def test_a_model_keeps_its_own_precision(tmp_path: Path) -> None:
    assert _export(Hand().half(), tmp_path / "m.onnx").precision == "float16"
    assert _export(Hand().double(), tmp_path / "n.onnx").precision == "float32"


def test_an_unknown_precision_is_refused(hand: Hand, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"'int4' is not one of float32, float16, bfloat16"):
        _export(hand, tmp_path / "m.onnx", precision="int4")


def test_large_weights_lie_beside_the_file(hand: Hand, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    assert _export(hand, path, external_above=100).file == path
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    proto = onnx.load(str(path), load_external_data=False)
    places = {
        entry.value for t in proto.graph.initializer for entry in t.external_data if entry.key == "location"
    }
    assert places == {"m.onnx.data"}
    assert verify(path, hand).passed
    (tmp_path / "m.onnx.data").unlink()
    with pytest.raises(ModelFileError, match=r"m\.onnx\.data, which cannot be read: it is not there"):
        verify(path, hand)


def test_a_missing_folder_is_named(hand: Hand, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"folder .*none does not exist"):
        _export(hand, tmp_path / "none" / "m.onnx")


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


def test_a_loop_over_tokens_is_a_dim_mismatch(tmp_path: Path) -> None:
    # torch.onnx falls back to fixing the size in silence: only the check of the file finds it.
    with pytest.raises(
        DimMismatch, match=r"dim 1 of input 'input_ids' is fixed at 5, but must stay symbolic"
    ):
        _export(Specialised().eval(), tmp_path / "m.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx.rejected"]


class Silent(Hand):
    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        outputs = super().forward(**inputs)
        del outputs["binary"]
        return outputs


def test_an_output_that_the_model_does_not_give(tmp_path: Path) -> None:
    with pytest.raises(NameMismatch, match=r"declares binary, but the model gives only unary, pooled"):
        _export(Silent().eval(), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


class Untraceable(Hand):
    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        if float(inputs["input_ids"].sum()) > 3:
            return super().forward(**inputs)
        return super().forward(**inputs)


def test_a_branch_on_values_is_an_export_error(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"torch.onnx could not export"):
        _export(Untraceable().eval(), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_the_cases_differ_from_the_traced_sizes() -> None:
    traced = cases.traced(SIGNATURE, {"length": 64})
    assert min(traced.values()) >= 2
    assert len(set(traced.values())) == len(traced)
    assert not {3, 8} & set(traced.values())  # the fixed dims of the signature
    plan = cases.cases(SIGNATURE, {"length": 64})
    assert {case.sizes["length"] for case in plan} >= {1, 7, 33}
    assert {case.sizes["batch"] for case in plan} == {1, 3}
    assert all(case.sizes["length"] != traced["length"] for case in plan)
    assert {case.mask for case in plan} == {"all", "padded", "empty"}
    short = cases.cases(SIGNATURE, {"length": 4})
    assert max(case.sizes["length"] for case in short) == 4


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
    assert Path("/dev/null").is_char_device()
    assert [p.name for p in tmp_path.rglob("*")] == ["taken"]


def test_a_full_disk_leaves_nothing(hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("peirce_export.onnx.exporter.write", full)
    said = (
        r"m.onnx cannot be written: No space left on device; what stood there is as it was; make room there"
    )
    with pytest.raises(WriteError, match=said):
        _export(hand, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


_KILLED = """
import os, signal, sys
from pathlib import Path
from peirce.files import scratch
with scratch(Path(sys.argv[1])) as folder:
    (folder / "new").mkdir()
    (folder / "new" / "m.onnx").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_export_that_is_told_to_end_leaves_nothing_and_one_that_was_killed_is_cleared_away(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object, **__: object) -> None:
        raise SystemExit(143)

    with monkeypatch.context() as patched:
        patched.setattr("peirce_export.onnx.exporter.verify", end)
        with pytest.raises(SystemExit):
            _export(hand, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []
    subprocess.run([sys.executable, "-P", "-c", _KILLED, str(tmp_path / "m.onnx")], check=False)
    assert [path.name.partition(".peirce-")[0] for path in tmp_path.iterdir()] == [".m.onnx"]
    _export(hand, tmp_path / "m.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_a_seed_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="seed -1 is not an integer from 0"):
        OnnxOptions(seed=-1)
