"""A file that was exported from another model than the one beside it."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import onnx.parser
import pytest
from command_line import exit_code
from small_specs import TRANSFORMER

import peirce
from peirce.registry import Registry
from peirce_export import StaleWarning

_FOREIGN = '<ir_version: 9, opset_import: ["" : 20]> of_another (float[n] x) => (float[n] y) { y = Abs(x) }'


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    model = peirce.build(TRANSFORMER, registry=registry)
    model.save(folder)
    peirce.export(model, path=folder / "model.onnx", registry=registry)
    return folder


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "model"))


def test_a_file_of_the_model_beside_it_says_nothing(folder: Path, registry: Registry) -> None:
    peirce.load(folder, registry=registry).save(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        peirce.Session(folder / "model.onnx").close()
    assert peirce.verify(folder).passed
    (folder / "provenance.json").unlink()
    peirce.Session(folder / "model.onnx").close()


@pytest.mark.parametrize(
    ("seed", "changes", "differs"),
    [(1, {}, "other weights:"), (0, {"model.regularisation.dropout": 0.5}, "other spec:")],
)
def test_a_model_that_was_saved_again_makes_it_stale(
    seed: int, changes: dict[str, float], differs: str, folder: Path, registry: Registry
) -> None:
    peirce.build(TRANSFORMER.replace(changes), seed=seed, registry=registry).save(folder)
    with pytest.warns(StaleWarning, match=f"{differs}.*Export it again with `peirce export") as told:
        peirce.Session(folder / "model.onnx").close()
    assert told[0].filename == __file__
    peirce.Session(folder / "model.onnx", digests=False).close()
    report = peirce.verify(folder)
    assert not report.passed
    assert report.to_dict()["files"]["model.onnx"]["state"] == "stale"
    assert differs in report.notes[0]


def test_a_folder_is_verified_with_what_lies_beside_the_model(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "notes.json").write_text("of a user")
    (folder / "notes.txt").write_text("of a user")
    onnx.save(onnx.parser.parse_model(_FOREIGN), folder / "foreign.onnx")
    assert exit_code("verify", folder, "--json") == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert {name: file["state"] for name, file in files.items()} == {
        **dict.fromkeys(("provenance.json", "spec.toml", "weights.safetensors", "model.onnx"), "ok"),
        "foreign.onnx": "no digest",
    }
    content = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(content.replace(b"unary", b"unar2", 1))
    assert exit_code("verify", folder) == 1
    assert "model.onnx: damaged" in capsys.readouterr().out
    for end in (-3, content.rindex(b"peirce.digest")):
        (folder / "model.onnx").write_bytes(content[:end])
        assert exit_code("verify", folder) == 1
        assert "model.onnx: damaged" in capsys.readouterr().out
