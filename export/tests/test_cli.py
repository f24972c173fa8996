"""`peirce export`, `peirce verify` and `peirce run`, on a composed model that is saved, exported and run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import exit_code as run
from onnx import numpy_helper
from small_specs import TRANSFORMER

from peirce import Session, build, load
from peirce.errors import RenamedWarning
from peirce.spec import Spec
from peirce_export.onnx import matrix
from peirce_export.onnx.session import OnnxFile
from peirce_export.tensorrt.backends import has_gpu, is_installed

# The least of the architecture: what these tests are about depends on no size.
SMALL = TRANSFORMER.replace({"model.dims.layers": 1, "model.input.vocabulary": 20})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model with its export beside it, as the command writes it."""
    folder = tmp_path_factory.mktemp("cli") / "model"
    build(SMALL, seed=3).save(folder)
    assert run("export", folder, "--to", "onnx", "-o", folder / "model.onnx") == 0
    return folder


def test_a_folder_that_is_not_there_is_no_spec(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", tmp_path / "none", "--to", "onnx", "-o", tmp_path / "model.onnx") == 2
    assert f"there is no folder {tmp_path / 'none'}" in capsys.readouterr().err


def test_a_name_that_is_neither_a_folder_nor_a_spec_lists_the_folders_with_models(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(saved.parent)
    assert run("export", "modle") == 2
    assert "there is no folder modle; that folder has model; " in capsys.readouterr().err
    assert run("export", "model") == 2
    assert "give the file to write with -o, such as -o model/model.onnx" in capsys.readouterr().err


def test_export_and_verify_a_saved_model(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", saved / "model.onnx") == 0
    printed = capsys.readouterr().out
    for word in ("output", "shape", "dtype", "relative", "tolerance", "mlm_logits", "ok", "seed 0"):
        assert word in printed
    with Session(saved / "model.onnx") as session:
        assert session.signature == load(saved).signature
    metadata = OnnxFile(saved / "model.onnx").metadata
    assert Spec.from_toml(metadata.spec, source="the file") == SMALL
    assert metadata.provenance == load(saved).provenance


def test_every_opset_on_every_provider(
    saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "ASKED", (26,))
    named = ("--provider", "CPUExecutionProvider", "--matrix")
    assert run("verify", saved / "model.onnx", *named, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "peirce.matrix/1"
    found = {(cell["opset"], cell["provider"]): cell for cell in report["cells"]}
    assert found[26, "CPUExecutionProvider"]["passed"]
    assert 0 < found[26, "CPUExecutionProvider"]["error"] < 1e-5
    assert run("verify", saved, "--matrix", "--alone") == 2


@pytest.mark.thorough
def test_a_matrix_is_printed(
    saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "ASKED", (26,))
    assert run("verify", saved, "--matrix", "--provider", "CPUExecutionProvider") == 0
    assert "ok" in capsys.readouterr().out


def test_a_machine_without_tensorrt_or_its_gpu_exits_with_1(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if has_gpu() and is_installed("tensorrt"):
        pytest.skip("this machine has both")
    file = tmp_path / "model.engine"
    assert run("export", saved, "--to", "tensorrt", "-o", file, "--backend", "tensorrt") == 1
    said = capsys.readouterr().err
    assert said.startswith("error: the ")
    assert said.count("\n") == 1
    assert (
        "on the machine whose GPU will run the engine" in said
        or "on the GPU that will run the engine" in said
    )
    assert list(tmp_path.iterdir()) == []


def test_a_spec_has_random_weights_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "small.toml").write_text(SMALL.to_toml())
    options = ("--opset", 18, "--precision", "float16", "--set", "external_above=0", "--lean", "--json")
    with pytest.warns(
        RenamedWarning, match="--lean is now called --optimize; the old name is removed in version 2.0"
    ):
        assert run("export", tmp_path / "small.toml", "-o", tmp_path / "m.onnx", *options) == 0
    printed = capsys.readouterr()
    assert "weights are random (seed 0)" in printed.err
    report = json.loads(printed.out)
    assert (report["schema"], report["passed"]) == ("peirce.verification/1", True)
    assert (report["opset_actual"], report["precision"]) == (18, "float16")
    assert (tmp_path / "m.onnx.data").is_file()


def test_a_changed_weight_exits_with_1(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = onnx.load(str(saved / "model.onnx"))
    tensor = next(t for t in proto.graph.initializer if "embedding" in t.name)
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1.5), tensor.name))
    path = tmp_path / "changed.onnx"
    onnx.save(proto, str(path))
    assert run("verify", path, "--model", saved) == 1
    printed = capsys.readouterr()
    assert "NO" in printed.out
    assert "ValueMismatch" in printed.err
    assert (tmp_path / "changed.failed-inputs.npz").is_file()
    assert run("verify", path, "--model", saved, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] is False
    assert report["error"]["kind"] == "ValueMismatch"
    again = ("run", path, "--inputs", tmp_path / "changed.failed-inputs.npz", "-o", tmp_path / "out.npz")
    monkeypatch.setenv("PEIRCE_NO_DIGESTS", "0")  # put back, since the switch sets it
    assert run(*again) == 2
    assert "peirce --no-digests" in capsys.readouterr().err
    assert run("--no-digests", *again) == 0


def test_run(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = np.random.default_rng(0).integers(0, 20, (2, 6))
    np.savez(tmp_path / "x.npz", input_ids=ids)
    command = ("run", saved / "model.onnx", "--inputs", tmp_path / "x.npz", "-o", tmp_path / "y.npz")
    assert run(*command) == 0
    assert "mlm_logits  float32 [2, 6, 20]" in capsys.readouterr().out
    with np.load(tmp_path / "y.npz") as found, Session(saved / "model.onnx") as session:
        expected = session.run({"input_ids": ids})
        assert sorted(found.files) == sorted(expected)
        for name in found.files:
            np.testing.assert_array_equal(found[name], expected[name])
    assert run(*command, "--json", "--threads", 1) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["outputs"]["unary"] == {"dtype": "float32", "shape": [2, 6, 24]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npz", "y.npz"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("export", "none.toml", "-o", "m.onnx"), "none.toml"),
        (("export", "{saved}", "-o", "m.onnx", "--to", "onix"), "Did you mean 'onnx'"),
        (
            ("export", "{saved}", "-o", "m.onnx", "--opset", "3"),
            "'opset' must be in (17, 18, 19, 20, 21, 22, 23, 24, 25, 26) (got 3)",
        ),
        (
            ("export", "{saved}", "-o", "m.onnx", "--precision", "half"),
            "'precision' must be in (None, 'float32'",
        ),
        (("export", "{saved}", "-o", "m.onnx", "--set", "opsett=18"), "Did you mean 'opset'"),
        (("export", "{saved}", "-o", "no/m.onnx"), "folder no does not exist"),
        (("verify", "none.onnx"), "there is no file none.onnx"),
        (("verify", "{folder}/y.onnx"), "has no saved model to verify y.onnx against"),
        (("run", "{saved}/model.onnx", "--inputs", "none.npz", "-o", "y.npz"), "none.npz is not a file"),
        (
            ("run", "{saved}/model.onnx", "--inputs", "{folder}/text.npz", "-o", "y.npz"),
            "cannot be read as a .npz",
        ),
        (("run", "{saved}/model.onnx", "--inputs", "{folder}/a.npz", "-o", "y.npz"), "unknown input 'ids'"),
        (("run", "{saved}", "--inputs", "{folder}/a.npz", "-o", "y.npz"), "that folder has model.onnx"),
        (("run", "{saved}/model.onnx", "--ask", "hello"), "--ask hello: give a field and its value"),
        (("run", "{folder}/alone.onnx", "--ask", "text=a"), "alone.onnx: no saved model lies beside it"),
        (("verify", "{saved}", "--matrix", "--provider", "Foo"), "unknown provider 'Foo'. Known: "),
        (("export", "{saved}", "-o", "m.pt"), "m.pt: what exporter 'onnx' writes must end in .onnx"),
        (("export", "{saved}", "-o", "{folder}"), "is a directory or a device"),
        (("export", "{saved}", "-o", "m.onnx", "--set", "seed=-1"), "'seed' must be >= 0: -1"),
        (
            ("run", "{saved}/model.onnx", "--inputs", "{folder}/a.npz", "-o", "no/y.npz"),
            "folder no does not exist",
        ),
    ],
)
def test_bad_input_exits_with_2(
    saved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.npz").write_text("no arrays")
    (tmp_path / "y.onnx").write_text("no graph")
    shutil.copy(saved / "model.onnx", tmp_path / "alone.onnx")
    np.savez(tmp_path / "a.npz", ids=np.zeros((1, 2), np.int64))
    before = sorted(tmp_path.iterdir())
    assert run(*(argument.format(saved=saved, folder=tmp_path) for argument in arguments)) == 2
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
