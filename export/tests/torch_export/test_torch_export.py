"""The exporter torch_export: what a `.pt2` file holds, how it is verified, and that no file of a stranger runs code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hand_model import Hand
from small_specs import FOLNET, TRANSFORMER

import peirce
from peirce import Session
from peirce.compose import build
from peirce.errors import ExportError, InputError, ModelFileError
from peirce.model import Model
from peirce.registry import Registry
from peirce_export.failures import DimMismatch, NameMismatch, ValueMismatch
from peirce_export.torch_export.archive import TORCH, Archive, seal
from peirce_export.torch_export.exporter import TorchExportExporter, TorchExportOptions
from peirce_export.torch_export.verifying import ProgramGraph
from peirce_export.verification import verify

SMALL = {"model.dims.layers": 1, "model.regularisation.init_std": 0.5}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> tuple[Model, Path]:
    """A saved model with its export beside it; tests copy the folder before they change it."""
    model = build(FOLNET.replace(SMALL), seed=2, registry=registry)
    folder = tmp_path_factory.mktemp("saved") / "model"
    model.save(folder)
    report = peirce.export(model, path=folder / "model.pt2", to="torch_export")
    assert report.passed
    return model, folder


def test_it_computes_what_the_model_computes_at_any_size(saved: tuple[Model, Path]) -> None:
    model, folder = saved
    with Session(folder / "model.pt2", providers=[TORCH]) as session:
        assert session.signature == model.signature
        assert (session.providers, session.role) == (("torch",), "model")
        for batch, length in ((1, 1), (4, 17), (3, 32)):
            given = model.example_inputs({"batch": batch, "length": length}, padding="padded")
            found = session.run({name: tensor.numpy() for name, tensor in given.items()})
            for name, value in model.eval()(**given).items():
                np.testing.assert_allclose(found[name], value.detach().numpy(), atol=1e-5, rtol=1e-5)
        (value,) = session.run({"input_ids": [[1, 2]]}, outputs=["nsp_logits"]).values()
        on_device = session.run_on_device({"input_ids": [[1, 2]]}, outputs=["nsp_logits"])["nsp_logits"]
        assert (on_device.device, on_device.shape, on_device.dtype) == ("cpu", (1, 2), np.float32)
        np.testing.assert_array_equal(on_device.numpy(), value)
        with pytest.raises(
            InputError, match="the length of the inputs is 33, and the model reads at most 32"
        ):
            session.run({"input_ids": [[1] * 33]})


def test_the_file_is_torchs_own_with_what_peirce_knows_of_it(saved: tuple[Model, Path]) -> None:
    model, folder = saved
    extra = {"peirce.json": ""}
    program = torch.export.load(str(folder / "model.pt2"), extra_files=extra)
    properties = json.loads(extra["peirce.json"])
    assert properties["peirce.role"] == "model"
    assert json.loads(properties["peirce.provenance"]) == model.provenance
    batch = program.module()(*model.exportable().example_inputs({"batch": 2, "length": 9}))
    assert [list(value.shape) for value in batch[:2]] == [[2, 9, 24], [2, 9, 9, 6]]
    weights = sum(p.numel() for p in model.parameters())
    held = sum(t.numel() for t in (*program.state_dict.values(), *program.constants.values()))
    assert 0.9 * weights < held < 1.1 * weights  # what was folded is not kept apart as well
    with zipfile.ZipFile(folder / "model.pt2") as archive:
        here = str(Path(peirce.__file__).parent).encode()
        assert not any(here in archive.read(name) for name in archive.namelist())


def test_a_stranger_s_file_runs_no_code(saved: tuple[Model, Path], tmp_path: Path) -> None:
    model, folder = saved
    path = tmp_path / "theirs.pt2"
    shutil.copy(folder / "model.pt2", path)
    mark = tmp_path / "mark"
    with zipfile.ZipFile(path) as old:
        entries = {info.filename: old.read(info) for info in old.infolist()}
    graph = json.loads(entries["model/models/model.json"])
    bomb = f"__import__('pathlib').Path({str(mark)!r}).touch()"
    text = json.dumps(graph).replace('"expr_str": "Symbol', f'"expr_str": "{bomb} or Symbol', 1)
    assert bomb in text
    entries["model/models/model.json"] = text.encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in entries.items():
            if not name.endswith("peirce.json"):
                new.writestr(name, content)
    seal(path, Archive.read(folder / "model.pt2").metadata)  # its maker may seal it too
    for opened in (
        lambda: Session(path),
        lambda: peirce.verify(path, model),
        lambda: Session(path, providers=["CPUExecutionProvider"]),
    ):
        with pytest.raises(InputError, match=r"trust them as you trust code|unknown provider"):
            opened()
    assert not mark.exists()
    with suppress(ModelFileError):
        Session(path, providers=[TORCH])
    assert mark.exists()  # so the refusal is not for nothing


def test_what_is_known_without_running_it_needs_no_torch(saved: tuple[Model, Path]) -> None:
    _, folder = saved
    script = (
        "import peirce, sys; found = peirce.verify('.'); print(found.files['model.pt2']['state'], found.passed);"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["ok", "True", "False"], done.stderr


def test_a_model_that_was_saved_again_makes_it_stale(
    saved: tuple[Model, Path], tmp_path: Path, registry: Registry
) -> None:
    shutil.copytree(saved[1], tmp_path / "model")
    build(FOLNET.replace(SMALL), seed=3, registry=registry).save(tmp_path / "model")
    report = peirce.verify(tmp_path / "model")
    assert not report.passed
    assert any("was exported from another model" in note for note in report.notes)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.999, "last", "cut", "longer"])
def test_any_change_is_noticed(place: float | str, saved: tuple[Model, Path], tmp_path: Path) -> None:
    content = bytearray((saved[1] / "model.pt2").read_bytes())
    if place == "cut":
        del content[-1:]
    elif place == "longer":
        content += b" "
    else:
        content[-1 if place == "last" else int(len(content) * float(place))] ^= 1
    path = tmp_path / "model.pt2"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"is not what was exported|cannot be read|damaged"):
        Session(path, providers=[TORCH])


def rewritten(
    path: Path, change: Callable[[dict[str, Any]], Any], compression: int = zipfile.ZIP_STORED
) -> Path:
    """The archive with other properties."""
    with zipfile.ZipFile(path) as old:
        entries = {info.filename: old.read(info) for info in old.infolist()}
    (own,) = (name for name in entries if name.endswith("peirce.json"))
    entries[own] = json.dumps(change(json.loads(entries[own]))).encode()
    with zipfile.ZipFile(path, "w", compression) as new:
        for name, content in entries.items():
            if name != own or json.loads(content) is not None:
                new.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda properties: None, "was not exported by Peirce"),
        (lambda properties: [properties], "is not a table of texts"),
        (lambda properties: {**properties, "peirce.role": 3}, "is not a table of texts"),
        (lambda properties: {**properties, "peirce.format": "99"}, "upgrade peirce"),
        (lambda properties: {**properties, "peirce.precision": "float8"}, "damaged Peirce properties"),
        (lambda properties: {**properties, "peirce.signature": "[" * 9999}, "damaged Peirce properties"),
    ],
)
def test_foreign_and_damaged_properties_are_one_sentence(
    change: Callable[[dict[str, Any]], Any], said: str, saved: tuple[Model, Path], tmp_path: Path
) -> None:
    path = rewritten(Path(shutil.copy(saved[1] / "model.pt2", tmp_path / "m.pt2")), change)
    with pytest.raises(ModelFileError, match=said):
        Archive.read(path)


def test_compressed_properties_are_not_unpacked(saved: tuple[Model, Path], tmp_path: Path) -> None:
    path = Path(shutil.copy(saved[1] / "model.pt2", tmp_path / "m.pt2"))
    with pytest.raises(ModelFileError, match="compressed, or too large"):
        Archive.read(rewritten(path, lambda properties: properties, zipfile.ZIP_DEFLATED))


def test_another_model_is_told_from_its_own(saved: tuple[Model, Path], registry: Registry) -> None:
    graph = ProgramGraph(Archive.read(saved[1] / "model.pt2"))
    assert verify(graph, saved[0], providers=[TORCH]).passed
    with pytest.raises(ValueMismatch, match="differs from the model by"):
        verify(graph, build(FOLNET.replace(SMALL), seed=3, registry=registry), providers=[TORCH])
    (saved[1] / "model.failed-inputs.npz").unlink()
    wider = FOLNET.replace({**SMALL, "model.dims.unary": 36})
    with pytest.raises(NameMismatch, match="exported for other inputs and outputs"):
        verify(graph, build(wider, registry=registry), providers=[TORCH])


class Specialised(Hand):
    def forward(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        outputs = super().forward(**inputs)
        total = outputs["pooled"]
        for token in range(inputs["input_ids"].shape[1]):
            total = total + outputs["unary"][:, token]
        return {**outputs, "pooled": total}


class Silent(Hand):
    def forward(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        outputs = super().forward(**inputs)
        del outputs["binary"]
        return outputs


class Data(Hand):
    def forward(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        return super().forward(**inputs) if float(inputs["input_ids"].sum()) > 3 else {}


@pytest.mark.parametrize(
    ("model", "fault", "said"),
    [
        (Specialised, DimMismatch, "the model fixes one of the dims"),
        (Silent, NameMismatch, "declares binary, but the model returns only unary, pooled"),
        (Data, ExportError, "torch.export could not export the model"),
    ],
)
def test_what_cannot_be_exported_is_told_as_what_it_is(
    model: type[Hand], fault: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(fault, match=said):
        TorchExportExporter(TorchExportOptions()).export(model().eval(), tmp_path / "m.pt2")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_generated_text_is_torchs_token_for_token(registry: Registry, tmp_path: Path) -> None:
    causal = {"model.scope.kind": "causal", "model.heads": [{"use": "causal_lm"}]}
    model = build(TRANSFORMER.replace({**SMALL, **causal}), seed=2, registry=registry).eval()
    path = tmp_path / "model.pt2"
    report = peirce.export(model, path=path, to="torch_export", generate=True)
    assert report.passed
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.pt2", "model.step.pt2"]
    prompts = model.example_inputs({"batch": 3, "length": 6}, padding="padded", optional=["attention_mask"])
    arrays = {name: tensor.numpy() for name, tensor in prompts.items()}
    for how in ({"max_new": 7}, {"max_new": 5, "beams": 3, "eos_id": 5}):
        wanted = model.generate(prompts, **how)
        with Session(path, providers=[TORCH], threads=1) as session:
            found = session.generate(arrays, **how)
        assert [text.tokens for text in found] == [text.tokens for text in wanted]
    step = tmp_path / "model.step.pt2"
    step.write_bytes(step.read_bytes() + b" ")
    with pytest.raises(ModelFileError, match=r"model\.step\.pt2 is not what was exported with"):
        Session(path, providers=[TORCH])


@pytest.mark.thorough
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision(precision: str, saved: tuple[Model, Path], tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    report: Any = peirce.export(saved[0], path=path, to="torch_export", precision=precision)
    assert {line.dtype for line in report.lines} == {precision}
    with Session(path, providers=[TORCH]) as session:
        dtype = np.float32 if precision == "bfloat16" else np.float16
        assert session.run({"input_ids": [[1, 2]]})["unary"].dtype == session.dtype("unary") == dtype


def test_a_compiler_that_is_not_there_is_named(saved: tuple[Model, Path], tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"there is no C\+\+ compiler 'g\+\+-99' here"):
        peirce.export(saved[0], path=tmp_path / "m.pt2", to="torch_export", aot_inductor="g++-99")
    assert not list(tmp_path.iterdir())


def test_a_name_that_no_session_would_open_is_refused(saved: tuple[Model, Path], tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"'torch_export' writes must end in \.pt2"):
        peirce.export(saved[0], path=tmp_path / "m.onnx", to="torch_export")
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("g++") is None, reason="it needs a C++ compiler")
def test_a_package_of_aot_inductor(saved: tuple[Model, Path], tmp_path: Path) -> None:
    model, path = saved[0], tmp_path / "m.pt2"
    report = peirce.export(model, path=path, to="torch_export", aot_inductor="g++")
    assert report.passed
    with Session(path, providers=[TORCH]) as session:
        given = model.example_inputs({"batch": 1, "length": 1})
        found = session.run({name: tensor.numpy() for name, tensor in given.items()})
    for name, value in model.eval()(**given).items():
        np.testing.assert_allclose(found[name], value.detach().numpy(), atol=1e-5, rtol=1e-5)
    assert peirce.verify(path, model, providers=[TORCH]).passed
