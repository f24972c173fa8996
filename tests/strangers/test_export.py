"""Exports: constants near 0 and 1, wrapped models, padding, overflow, other tools, kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.version_converter
import onnxruntime
import pytest
import torch
from hand_model import ROW, Text
from kills import CHANGES, forked, signal_at
from onnx import numpy_helper
from onnxruntime import quantization
from onnxruntime.transformers import optimizer
from small_specs import FOLNET, RECURRENT, TRANSFORMER
from torch import Tensor, nn

import peirce
from peirce.errors import InputError, ModelFileError
from peirce.parts import Signature, TensorSpec
from peirce_export.cases import cases, inputs
from peirce_export.failures import ValueMismatch
from peirce_export.metadata import step_of
from peirce_export.onnx.content import Content, sign
from peirce_export.onnx.exporter import OnnxExporter, OnnxOptions
from peirce_export.placement import write_verified
from peirce_export.report import Verification
from peirce_export.runtimes import find_runtime
from peirce_export.session import Session
from peirce_export.verification import relative_error

IDS = TensorSpec(name="input_ids", dtype="int64", dims=ROW, high=11, meaning="Token ids.")
REAL = TensorSpec(name="attention_mask", dtype="bool", dims=ROW, required=False, default=True, masks="length")


class Small(nn.Module):
    """What the tests' models have in common: an embedding whose token 0 is zero, and what a composed model says."""

    spec = Text()
    outputs: tuple[TensorSpec, ...] = (TensorSpec(name="unary", dtype="float", dims=(*ROW, 4)),)

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.layer = nn.Embedding(11, 4, padding_idx=0), nn.Linear(4, 4)
        self.signature = Signature([IDS, REAL], self.outputs)
        self.provenance: dict[str, Any] = {"format": 1, "parts": []}


def exported(model: Any, path: Path, **options: Any) -> Verification:
    return OnnxExporter(OnnxOptions(**options)).export(model.eval(), path)


class Guarded(Small):
    """A logarithm and a quotient, guarded by numbers near 0, and a factor near 1 that makes a difference."""

    outputs = (
        TensorSpec(name="unary", dtype="float", dims=(*ROW, 4)),
        TensorSpec(name="scaled", dtype="float", dims=(*ROW, 4)),
        TensorSpec(name="factor", dtype="float", dims=(*ROW, 4)),
    )

    def __init__(self) -> None:
        super().__init__()
        given = TensorSpec(name="values", dtype="float", dims=(*ROW, 4))
        self.signature = Signature([given], self.outputs)

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        atoms = inputs["values"]
        return {
            "unary": torch.log(atoms.abs() + 1e-9),
            "scaled": atoms / (atoms.norm(dim=-1, keepdim=True) + 1e-12),
            "factor": atoms * 1.000003,
        }


def _drop_guard(proto: onnx.ModelProto) -> None:
    """Take the addition of 1e-9 out of a graph, as an optimiser does that takes it for 0."""
    small = {
        t.name for t in proto.graph.initializer if numpy_helper.to_array(t).ravel()[:1] == np.float32(1e-9)
    }
    node = next(node for node in proto.graph.node if node.op_type == "Add" and small & {*node.input})
    kept = next(name for name in node.input if name not in small)
    for other in proto.graph.node:
        names = [kept if name == node.output[0] else name for name in other.input]
        del other.input[:]
        other.input.extend(names)
    proto.graph.node.remove(node)


@pytest.mark.report(
    "https://github.com/ROCm/AMDMIGraphX/issues/2659",
    "an optimiser compares constants within a tolerance and drops the epsilon of a norm",
    "each constant stays in the file, and verification gives inputs that reach such guards",
)
def test_numbers_near_0_and_1_stay_and_guards_are_reached(tmp_path: Path) -> None:
    model, path = Guarded(), tmp_path / "m.onnx"
    assert exported(model, path).passed
    with Session(path) as session:
        found = session.run({"values": np.zeros((1, 1, 4), np.float32)})
    assert found["unary"][0, 0] == pytest.approx(np.full(4, np.log(1e-9)), rel=1e-5)
    assert np.isfinite(found["scaled"]).all()
    proto = onnx.load(path)
    assert np.float32(1.000003) in [numpy_helper.to_array(t) for t in proto.graph.initializer if not t.dims]
    _drop_guard(proto)
    onnx.save(proto, other := tmp_path / "other.onnx")
    with pytest.raises(ValueMismatch, match=r"output 'unary' differs .* at one word a row"):
        find_runtime(other).verify(other, model)


class Blind(Small):
    """Attention whose mask is added twice: rows of padding see nothing, and float64 has NaN where float32 has not."""

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        atoms, real = self.tokens(inputs["input_ids"]), inputs["attention_mask"]
        scores = self.layer(atoms) @ atoms.transpose(1, 2)
        low = (~(real[:, None] & real[:, :, None])).to(
            atoms.dtype
        ) * -1e9  # float64 keeps what it is added to
        unary = (scores + low).softmax(-1) @ atoms
        if atoms.dtype == torch.float64:  # minus infinity times 0 where all is masked
            unary = unary + low.amax(-1, keepdim=True) * 1e300 * 0
        return {"unary": unary}


class Undefined(Small):
    """What is no number in float64 alone, at a token that is real."""

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        atoms = self.tokens(inputs["input_ids"])
        if atoms.dtype == torch.float64:
            atoms = atoms + torch.where(inputs["input_ids"] == 0, torch.nan, 0.0)[:, :, None]
        return {"unary": self.layer(atoms)}


@pytest.mark.report(
    "https://github.com/microsoft/onnxscript/pull/2479",
    "an exported attention and torch differ in a row that sees nothing, and the comparison fails",
    "rows that see nothing are not compared, and NaN in the float64 reference alone is told and no fault of the file",
)
def test_verification_blames_no_file_for_rows_that_see_nothing(tmp_path: Path) -> None:
    report = exported(Blind(), tmp_path / "blind.onnx")
    assert report.passed
    assert not any("NaN" in note for note in report.notes)
    report = exported(Undefined(), tmp_path / "undefined.onnx")
    assert report.passed
    (note,) = (note for note in report.notes if "NaN" in note)
    assert "has NaN or infinity in 'unary'" in note
    assert "where the file has numbers: no fault of the file" in note


class Large(Small):
    """Activations that float16 cannot hold, whatever the output's own size."""

    def __init__(self, divided: bool) -> None:
        super().__init__()
        self.divided = divided
        self.layer.weight.data *= 3e5

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        values = self.layer(self.tokens(inputs["input_ids"]))
        return {"unary": values / 1e5 if self.divided else values}


@pytest.mark.report(
    "https://github.com/microsoft/onnxruntime/issues/11384",
    "a model in float16 gives NaN where it gives numbers in float32, and nothing says why",
    "verification says that float16 overflows, and in which module, also where the CPU computes wider",
)
def test_overflow_in_float16_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueMismatch, match=r"overflow, layer gives .*e\+05 .* float16 ends at 65504"):
        exported(Large(divided=False), tmp_path / "m.onnx", precision="float16")
    try:
        notes = exported(Large(divided=True), tmp_path / "n.onnx", precision="float16").notes
    except ValueMismatch as fault:  # where the runtime computes in float16 itself
        notes = (str(fault).replace("overflow", "Overflow"),)
    assert any("Overflow" in note and "layer gives" in note for note in notes)


@pytest.mark.report(
    "https://github.com/pytorch/pytorch/issues/23431",
    "a model in DataParallel cannot be exported, and the error does not say why",
    "export and verify take the model out of DataParallel, DistributedDataParallel and torch.compile",
)
@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
)  # torch 2.13's own
def test_wrapped_models_are_exported_and_verified(tmp_path: Path) -> None:
    model, path = peirce.build(TRANSFORMER.replace({"model.dims.layers": 1}), seed=0), tmp_path / "m.onnx"
    assert peirce.export(nn.DataParallel(model), path=path).passed
    assert peirce.verify(path, torch.compile(model)).passed
    with pytest.raises(
        InputError, match=r"a peirce\.Model is needed here, and a Sequential was given; .* `0`"
    ):
        peirce.verify(path, nn.Sequential(model))


def _fork_killed_at(number: int, place: Path, body: Callable[[], object]) -> bool:
    """Whether a fork that writes below a folder was killed, at so many changes of it."""

    def changes(event: str, arguments: tuple[Any, ...]) -> bool:
        writing = (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_RDWR | os.O_WRONLY)
        )
        return bool(event in CHANGES or writing) and str(place) in str(arguments[0])

    def killed() -> None:
        signal_at(signal.SIGKILL, number, changes)
        body()

    status = forked(killed)
    assert status in (0, -signal.SIGKILL)
    return status != 0


@pytest.mark.report(
    "https://github.com/dotsimulate/StreamDiffusion/pull/34",
    "a process is killed while it exports, and what lies at the file's name is empty or cut short",
    "a killed export leaves the old files or the new ones, or a mix that is refused when it is opened; the next export "
    "leaves nothing behind",
)
def test_an_export_that_is_killed_leaves_old_files_new_ones_or_a_mix_that_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out" / "m.onnx"
    path.parent.mkdir()
    found: list[str] = []
    names = {"m.onnx", "m.onnx.data", "m.step.onnx"}

    def write_one(content: str) -> None:
        graph = onnx.parser.parse_model(
            f'<ir_version: 9, opset_import: ["" : 20]> {content} () => (float[1] y) {{ y = Abs(w) }}'
        )
        graph.graph.initializer.append(numpy_helper.from_array(np.float32([len(content)]), "w"))

        def write(file: Path) -> Verification:
            file.with_name("m.failed").write_text(content)
            file.with_name("m.failed").unlink()
            onnx.save(graph, step_of(file))
            sign(step_of(file))
            onnx.save(graph, file, save_as_external_data=True, location="m.onnx.data", size_threshold=0)
            sign(file, [step_of(file)])
            return report

        write_verified(path, "m.onnx", write)

    def content() -> str:
        """What lies there, checked as a session checks it."""
        try:
            Content.read(path).check()
        except ModelFileError as error:
            return "mixed" if "export both again" in str(error) else str(error)
        return onnx.load(path).graph.name

    report = Verification(
        file=path, precision="float32", opset_requested=20, opset_actual=20, seed=0, providers=(), cases=(), lines=(),
        reason="",
    )  # fmt: skip
    write_one("old")
    while _fork_killed_at(len(found) + 1, path.parent, lambda: write_one("newer")):
        found.append(content())
        assert {each.name for each in path.parent.iterdir() if not each.name.startswith(".")} == names
        write_one("old")
        assert {each.name for each in path.parent.iterdir()} == names
    assert content() == "newer"
    assert found == sorted(found, key=["old", "mixed", "newer"].index)
    assert found.count("mixed") == 2, "between the three renames"
    assert {*found} == {"old", "mixed", "newer"}


TOOLS = [
    pytest.param(FOLNET.replace({"model.dims.layers": 1}), {}, id="folnet"),
    pytest.param(TRANSFORMER.replace({"model.dims.layers": 1}), {"opset": 17}, id="transformer at 17"),
    pytest.param(TRANSFORMER.replace({"model.dims.layers": 1}), {"functions": True}, id="functions"),
    pytest.param(RECURRENT, {"generate": True}, id="recurrent, to generate"),
]
"""Specs and options of exports that other tools take on."""


@pytest.mark.thorough
@pytest.mark.report(
    "https://github.com/microsoft/onnxruntime/issues/17582",
    "ONNX Runtime's optimiser of transformers ends in IndexError",
    "the optimiser, both quantisers, onnxslim and onnx's converter of opsets take files, which compute the same",
)
@pytest.mark.parametrize(("spec", "options"), TOOLS)
def test_other_tools_take_exported_files_on(
    spec: peirce.Spec, options: dict[str, Any], tmp_path: Path
) -> None:
    """`tox -e tools` has onnxslim; it is left out elsewhere."""
    path = tmp_path / "m.onnx"
    peirce.export(peirce.build(spec, seed=0), path=path, **options)
    onnx.checker.check_model(path, full_check=True)
    whole = onnx.shape_inference.infer_shapes(
        onnx.load(path), check_type=True, strict_mode=True, data_prop=True
    )
    with Session(path, digests=False) as session:
        signature = session.signature
        feeds = [
            inputs(signature, case, 0, np.dtype(np.float32)) for case in cases(signature, signature.largest)
        ]
        expected = session.run(feeds[1])

    def largest_error(changed: Path) -> float:
        runs = onnxruntime.InferenceSession(changed, providers=["CPUExecutionProvider"])
        names = [each.name for each in runs.get_outputs()]
        found = runs.run(names, {each.name: feeds[1][each.name] for each in runs.get_inputs()})
        return max(relative_error(each, expected[name]) for name, each in zip(names, found, strict=True))

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(feeds[:3])

        def get_next(self) -> Any:
            return next(self.left, None)

    quantization.quantize_dynamic(path, tmp_path / "dynamic.onnx")
    quantization.quantize_static(path, tmp_path / "static.onnx", Reader())
    assert max(largest_error(tmp_path / f"{name}.onnx") for name in ("dynamic", "static")) < 0.5
    optimizer.optimize_model(str(path), "bert", opt_level=1).save_model_to_file(str(tmp_path / "fused.onnx"))
    names = ["fused"]
    if not whole.functions:  # onnx 1.23's converter leaves them out
        onnx.save(onnx.version_converter.convert_version(whole, 24), tmp_path / "converted.onnx")
        names.append("converted")
    if find_spec("onnxslim"):
        import onnxslim

        onnxslim.slim(str(path), str(tmp_path / "slim.onnx"))
        names.append("slim")
    assert max(largest_error(tmp_path / f"{name}.onnx") for name in names) < 1e-5
