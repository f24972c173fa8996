"""Verification by corruption: one thing changed in a good file, each found with its own class of fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hand_model import Hand
from onnx import TensorProto, helper, numpy_helper
from small_specs import FOLNET

from peirce import Session
from peirce.errors import ModelFileError
from peirce.registry import load_spec
from peirce_export import LoadedModel
from peirce_export.failures import DimMismatch, DtypeMismatch, NameMismatch, ValueMismatch
from peirce_export.metadata import FORMAT, Metadata
from peirce_export.runtimes import find_runtime
from peirce_export.verification import TOLERANCES, Verifiable, relative_error, spec_difference
from peirce_export.verification import verify as of_any_format

Change = Callable[[onnx.ModelProto], None]


def verify(path: Path, model: Any, **how: Any) -> Any:
    """`peirce.verify` with what is no composed model."""
    return find_runtime(path).verify(path, model, **how)


@pytest.fixture
def changed(hand_file: Path, tmp_path: Path) -> Callable[[Change], Path]:
    """A copy of the good file with one change."""

    def make(change: Change) -> Path:
        proto = onnx.load(str(hand_file))
        change(proto)
        path = tmp_path / "changed.onnx"
        onnx.save(proto, str(path))
        return path

    return make


def _node(proto: onnx.ModelProto, kind: str, name: str) -> Any:
    return next(node for node in getattr(proto.graph, kind) if node.name == name)


def test_a_good_file_passes_at_every_case(hand: Any, hand_file: Path) -> None:
    words: list[str] = []
    report = verify(hand_file, hand, progress=words.append)
    assert report.passed
    assert [line.output for line in report.lines] == ["unary", "binary", "pooled"]
    assert [line.shape for line in report.lines][1] == ("batch", "length", "length", 3)
    assert all(0 < line.error < 1e-6 and line.tolerance == TOLERANCES["float32"][0] for line in report.lines)
    assert [case.partition(" (")[0] for case in report.cases] == [
        "one token",
        "odd length",
        "longer",
        "padded",
        "empty row",
        "all padding",
        "one word a row",
    ]
    assert len(words) == 1 + len(report.cases)
    assert not list(hand_file.parent.glob("*.npz"))


def test_one_value_of_one_initializer(hand: Any, changed: Callable[[Change], Path]) -> None:
    def change(proto: onnx.ModelProto) -> None:
        tensor = _node(proto, "initializer", "query.bias")
        values = numpy_helper.to_array(tensor).copy()
        values[3] += 0.01  # reaches the scores, and through them two of the three outputs
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))

    path = changed(change)
    with pytest.raises(ValueMismatch, match=r"'unary' differs.*\n.*seed 5") as caught:
        verify(path, hand, seed=5)
    report, saved = caught.value.report, caught.value.inputs
    assert report is not None
    assert [line.passed for line in report.lines] == [False, False, True]
    assert path.is_file()
    # The saved inputs alone show the difference again.
    assert saved == path.with_name("changed.failed-inputs.npz")
    with np.load(saved) as feeds, Session(path, digests=False) as session, torch.no_grad():
        found = session.run(dict(feeds))["unary"]
        expected = hand(**{name: torch.from_numpy(feeds[name]) for name in feeds.files})["unary"].numpy()
    worst = next(line for line in report.lines if line.output == "unary")
    assert relative_error(found, expected.astype(np.float64)) == pytest.approx(worst.error, rel=1e-2)


def _fixed(proto: onnx.ModelProto) -> None:
    _node(proto, "output", "binary").type.tensor_type.shape.dim[2].dim_value = 5


def _renamed_dim(proto: onnx.ModelProto) -> None:
    _node(proto, "input", "logical_ids").type.tensor_type.shape.dim[1].dim_param = "s12"


def _wider(proto: onnx.ModelProto) -> None:
    _node(proto, "output", "pooled").type.tensor_type.shape.dim[1].dim_value = 9


def _flatter(proto: onnx.ModelProto) -> None:
    del _node(proto, "output", "pooled").type.tensor_type.shape.dim[1]


def _fixed_inside(proto: onnx.ModelProto) -> None:
    for node in proto.graph.node:
        names = ["ids" if name == "input_ids" else name for name in node.input]
        del node.input[:]
        node.input.extend(names)
    proto.graph.initializer.append(numpy_helper.from_array(np.array([2, 5]), "traced"))
    proto.graph.node.insert(0, helper.make_node("Reshape", ["input_ids", "traced"], ["ids"]))


def _renamed_output(proto: onnx.ModelProto) -> None:
    for node in proto.graph.node:
        for i, name in enumerate(node.output):
            if name == "pooled":
                node.output[i] = "pooler"
    _node(proto, "output", "pooled").name = "pooler"


def _missing_input(proto: onnx.ModelProto) -> None:
    proto.graph.input.remove(_node(proto, "input", "attention_mask"))


def _reordered(proto: onnx.ModelProto) -> None:
    outputs = list(proto.graph.output)
    del proto.graph.output[:]
    proto.graph.output.extend(reversed(outputs))


def _double(proto: onnx.ModelProto) -> None:
    _node(proto, "output", "unary").type.tensor_type.elem_type = TensorProto.DOUBLE


def _short(proto: onnx.ModelProto) -> None:
    _node(proto, "input", "input_ids").type.tensor_type.elem_type = TensorProto.INT32


def _double_inside(proto: onnx.ModelProto) -> None:
    tensor = _node(proto, "initializer", "query.bias")
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def _nan(proto: onnx.ModelProto) -> None:
    tensor = _node(proto, "initializer", "tokens.weight")
    values = numpy_helper.to_array(tensor).copy()
    values[0] = np.nan
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _foreign(proto: onnx.ModelProto) -> None:
    del proto.metadata_props[:]


def _newer(proto: onnx.ModelProto) -> None:
    next(e for e in proto.metadata_props if e.key == "peirce.format").value = str(FORMAT + 1)


def _of_other_spec(proto: onnx.ModelProto) -> None:
    _respelt(proto, 'name = "hand"', 'name = "hand"\nlayers = 2')
    _fixed(proto)


@pytest.mark.parametrize(
    ("change", "fault", "said"),
    [
        (_fixed, DimMismatch, "dim 2 of output 'binary' is fixed at 5, but must stay symbolic as 'length'"),
        (_renamed_dim, DimMismatch, "dim 1 of input 'logical_ids' is called 's12'"),
        (_wider, DimMismatch, "dim 1 of output 'pooled' is 9, but the signature says 8"),
        (_flatter, DimMismatch, r"output 'pooled' has dims \[batch\]"),
        (_fixed_inside, DimMismatch, "does not run at one token .*inside the graph"),
        (_renamed_output, NameMismatch, "lacks pooled and has pooler"),
        (_missing_input, NameMismatch, "lacks attention_mask"),
        (_reordered, NameMismatch, "in the order pooled, binary, unary"),
        (_double, DtypeMismatch, "output 'unary' is double, but the signature says float"),
        (_short, DtypeMismatch, "input 'input_ids' is int32, but the signature says int64"),
        (_double_inside, DtypeMismatch, "rules of ONNX"),
        (_nan, ValueMismatch, "differs from the model by inf"),
        (_foreign, ModelFileError, "was not exported by Peirce"),
        (_newer, ModelFileError, f"has export format {FORMAT + 1}"),
        (
            _of_other_spec,
            DimMismatch,
            r"fixed at 5.*\n.*model.layers is 2 in the file and absent in the model",
        ),
    ],
)
def test_each_change_is_found_as_what_it_is(
    change: Change, fault: type[Exception], said: str, hand: Any, changed: Callable[[Change], Path]
) -> None:
    path = changed(change)
    with pytest.raises(fault, match=said):
        verify(path, hand)
    assert path.with_name("changed.failed-inputs.npz").is_file() == (change in (_fixed_inside, _nan))


def test_relative_error() -> None:
    ones = np.ones(3)
    assert relative_error(ones, ones) == 0.0
    assert relative_error(ones * 1.5, ones * 2) == 0.25
    assert relative_error(np.zeros(3), np.zeros(3)) == 0.0
    assert relative_error(ones, np.zeros(3)) == float("inf")
    assert relative_error(np.array([1.0, np.inf]), np.array([1.0, 2.0])) == float("inf")
    assert relative_error(np.ones(2), ones) == float("inf")


def _respelt(proto: onnx.ModelProto, old: str, new: str) -> None:
    entry = next(entry for entry in proto.metadata_props if entry.key == "peirce.spec")
    assert old in entry.value
    entry.value = entry.value.replace(old, new)


def test_another_spec_is_told_and_is_no_fault_by_itself(
    hand: Any, changed: Callable[[Change], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = changed(lambda proto: _respelt(proto, '"hand"', '"foot"'))
    with pytest.raises(
        ModelFileError, match=r"does not match its digest.*computes what the model.*model\.name is 'foot'"
    ):
        verify(file, hand)
    monkeypatch.setenv("PEIRCE_NO_DIGESTS", "1")
    report = verify(file, hand)
    assert report.passed
    assert report.notes == (
        "The file was exported from another spec than that of the model: model.name is 'foot' in the file and 'hand' "
        "in the model.",
    )


def test_each_key_that_differs_is_named_with_both_values_and_a_default_left_out_does_not() -> None:
    text = FOLNET.to_toml()
    assert (
        spec_difference(text, text)
        is spec_difference(text.replace('kind = "bidirectional"\n', ""), text)
        is None
    )
    said = spec_difference(FOLNET.replace({"model.dims.layers": 3, "model.heads": []}).to_toml(), text)
    assert said is not None
    assert "model.dims.layers is 2 in the file and 3 in the model" not in said
    assert "model.dims.layers is 3 in the file and 2 in the model" in said
    assert "model.heads.1.as is absent in the file and 'nsp' in the model" in said
    other = spec_difference(text, load_spec("tega").to_toml())
    assert other is not None
    assert other.count(" in the file and ") == 8
    assert other.endswith(" more.")


class InTorch(LoadedModel):
    """A model in torch as what a runtime has opened."""

    providers = ("torch",)

    def __init__(self, model: Any) -> None:
        self.model, self.signature = model, model.signature

    def dtype(self, name: str) -> np.dtype[Any]:
        return np.dtype(np.float32)

    def run(self, feeds: Any, outputs: Any) -> list[Any]:
        with torch.no_grad():
            found = self.model(**{name: torch.from_numpy(array) for name, array in feeds.items()})
        return [found[name].numpy() for name in outputs]

    def close(self) -> None:
        return


class Elsewhere(Verifiable):
    """A file of another format, at most five tokens long, in a runtime that rounds more than ONNX Runtime."""

    notes = ("Nothing is optimised.",)

    def __init__(self, path: Path, model: Any) -> None:
        self.path, self.model = path, model
        self.metadata = Metadata(
            signature=model.signature, spec=model.spec.to_toml(), provenance={}, precision="float32",
            opset_requested=20, opset_actual=20,
        )  # fmt: skip

    def check(self, signature: Any) -> None:
        assert signature == self.metadata.signature

    def shape(self, output: str) -> tuple[str | int, ...]:
        return self.metadata.signature.output(output).dims

    @contextmanager
    def open_file(self, providers: Any) -> Iterator[LoadedModel]:
        yield InTorch(self.model)

    def tolerance(self) -> tuple[float, str]:
        return 1e-3, "It rounds more."

    def largest(self, signature: Any) -> dict[str, int]:
        return {**signature.largest, "length": 5}


def test_a_file_of_another_format_in_another_runtime(hand: Any, tmp_path: Path) -> None:
    report = of_any_format(Elsewhere(tmp_path / "model.plan", hand), hand)
    assert report.passed
    assert (report.providers, report.reason, report.notes) == (
        ("torch",), "It rounds more.", ("Nothing is optimised.",),
    )  # fmt: skip
    assert {line.tolerance for line in report.lines} == {1e-3}
    assert any("length 5" in case for case in report.cases)
    assert not any("length 7" in case for case in report.cases)
    with pytest.raises(ValueMismatch, match=r"peirce run .*model.plan"):
        of_any_format(Elsewhere(tmp_path / "model.plan", Hand(seed=1).eval()), hand)
