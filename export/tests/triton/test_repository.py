"""Triton repositories as files: strictly parse with Triton's own messages, versions, refusals; no server runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import killed_moves
import numpy as np
import pytest
from served_models import CLASSES

import peirce
from peirce.errors import ExportError
from peirce.parts import Signature, TensorSpec
from peirce_export import LoadedModel
from peirce_export.metadata import Metadata, Precision
from peirce_export.triton.batching import has_rows, rows_are_independent
from peirce_export.triton.config import Kind, TritonOptions, config_text, parse, tensor_config
from peirce_export.triton.exporter import NO_BFLOAT16
from peirce_export.triton.repository import add, check

TRITON = pytest.mark.skipif(
    find_spec("tritonclient") is None, reason="tritonclient is not installed: pip install 'peirce[triton]'"
)


def config_of(folder: Path) -> Any:
    return parse((folder / "config.pbtxt").read_text(encoding="utf-8"), str(folder))


def described(signature: Signature, precision: Precision = "float32") -> Metadata:
    return Metadata(
        signature=signature, spec="", provenance={}, precision=precision, opset_requested=20, opset_actual=20
    )


def contents(folder: Path) -> Mapping[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.skipif(find_spec("tritonclient") is not None, reason="tritonclient is installed")
def test_without_tritonclient_it_says_what_to_install(weather: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"pip install 'peirce\[triton\]'"):
        peirce.export(weather, path=tmp_path / "repository", to="triton")
    assert not list(tmp_path.iterdir())


def test_an_opset_that_no_onnx_file_has_is_refused() -> None:
    with pytest.raises(ValueError, match="'opset' must be in"):
        TritonOptions(opset=99)


def test_rows_are_those_of_the_first_dim_alone() -> None:
    def signature(*outputs: tuple[str | int, ...]) -> Signature:
        ids = TensorSpec(name="ids", dtype="int64", dims=("batch", "length"))
        return Signature(
            [ids], [TensorSpec(name=f"o{i}", dtype="float", dims=d) for i, d in enumerate(outputs)]
        )

    assert has_rows(signature(("batch", 3), ("batch",)))
    assert not has_rows(signature(("batch", "batch")))
    assert not has_rows(signature(("batch", "length + batch")))
    assert not has_rows(signature(("length", "batch")))
    assert not has_rows(signature((3,)))


@TRITON
def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ExportError, match=r"config.pbtxt is not a configuration of Triton: .*max_batchsize"):
        parse('name: "m"\nmax_batchsize: 3\n', "config.pbtxt")


@TRITON
def test_each_export_adds_a_version_whole_or_not_at_all(weather: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    report = peirce.export(weather, path=repository, to="triton")
    assert report.passed
    assert report.notes[-1] == "Version 1 of weather, weather_classify."
    first = contents(repository)
    assert {name for name in first if name.startswith("weather/")} == {
        "weather/1/model.onnx",
        "weather/config.pbtxt",
        "weather/labels.classification_logits.txt",
        "weather/warmup/mask",
    }
    assert {"model.py", "front.json", "spec.toml", "provenance.json", "assets/tokenizer.json"} <= {
        name.removeprefix("weather_classify/1/") for name in first
    }
    labels = first["weather/labels.classification_logits.txt"].decode().split()
    assert tuple(labels) == CLASSES
    config = config_of(repository / "weather")
    assert (config.backend, config.default_model_filename, config.max_batch_size) == (
        "onnxruntime", "model.onnx", 32,
    )  # fmt: skip
    assert config.version_policy.latest.num_versions == 2  # the version before serves its own front
    with peirce.Session(repository / "weather" / "1" / "model.onnx") as session:
        assert [spec.name for spec in session.signature.inputs] == [each.name for each in config.input]
    front = config_of(repository / "weather_classify")
    assert [(each.name, each.optional) for each in front.input] == [("text", False), ("pair", True)]

    peirce.export(weather, path=repository, to="triton", max_batch=4)
    second = contents(repository)
    assert {name: second[name] for name in first if "/1/" in name or "labels" in name} == {
        name: content for name, content in first.items() if "/1/" in name or "labels" in name
    }
    assert second["weather/2/model.onnx"] == first["weather/1/model.onnx"]
    assert config_of(repository / "weather").max_batch_size == 4
    with pytest.raises(
        ExportError,
        match=r"weather_classify calls version 2 of weather, .* remove .*weather_classify",
    ):
        peirce.export(weather, path=repository, to="triton", questions=False)
    assert contents(repository) == second

    made = tmp_path / "made"
    for name in ("weather", "weather_classify"):
        shutil.copytree(repository / name / "2", made / name / "3")
    (repository / "weather_classify" / "3").mkdir()
    (repository / "weather_classify" / "3" / "mine").touch()  # in the way of the second rename
    with pytest.raises(OSError, match="not empty"):
        add(made, repository, 3, ["weather", "weather_classify"])
    (repository / "weather_classify" / "3" / "mine").unlink()
    (repository / "weather_classify" / "3").rmdir()
    assert contents(repository) == second
    assert not (repository / "weather" / "3").exists()


@TRITON
def test_an_export_that_is_killed_leaves_whole_versions_alone(tmp_path: Path) -> None:
    command = [sys.executable, killed_moves.__file__, "triton", str(tmp_path / "moved")]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    # Version by version, and what others ask first.
    order = ["1, 1", "12, 1", "12, 12"]
    assert found == sorted(found, key=order.index)
    assert set(found) == set(order)


@TRITON
def test_bfloat16_has_no_model_in_front(weather: Path, tmp_path: Path) -> None:
    report = peirce.export(weather, path=tmp_path / "repository", to="triton", precision="bfloat16")
    assert report.notes[-2:] == (NO_BFLOAT16, "Version 1 of weather.")


@TRITON
def test_a_repository_of_another_model_is_refused(tmp_path: Path) -> None:
    def config(kind: Kind = "onnxruntime", size: int = 3, batch: int = 8) -> Any:
        ids = TensorSpec(name="ids", dtype="int64", dims=("batch", "length"))
        signature = Signature([ids], [TensorSpec(name="out", dtype="float", dims=("batch", size))])
        return tensor_config("m", described(signature), TritonOptions(kind=kind, max_batch=batch))

    (tmp_path / "m").mkdir()
    with pytest.raises(ExportError, match=r"has no config.pbtxt, so it is not a model of Triton"):
        check(tmp_path, {"m": config()})
    (tmp_path / "m" / "config.pbtxt").write_text(config_text(config()), encoding="utf-8")
    check(tmp_path, {"m": config(batch=4), "another": config()})
    for other, why in (
        (config(kind="python"), "it is of the kind onnxruntime, not python"),
        (config(size=4), r"its output 'out' is TYPE_FP32 \[3\], and the new one's is TYPE_FP32 \[4\]"),
        (config(batch=0), r"its input 'ids' is TYPE_INT64 \[-1\]"),
    ):
        with pytest.raises(ExportError, match=f"another model under the name 'm': {why}"):
            check(tmp_path, {"m": other})


@TRITON
def test_what_cannot_be_a_repository_is_refused(weather: Path, tmp_path: Path) -> None:
    place = tmp_path / "repository"
    for given, said in (
        ({"name": "a/b"}, "'a/b' cannot name a served model"),
        ({"kind": "keras"}, "exporter 'triton' cannot use these options: .*'kind' must be in"),
        ({"max_batch": -1}, "exporter 'triton' cannot use these options: .*'max_batch' must be >= 0"),
    ):
        with pytest.raises(ExportError, match=said):
            peirce.export(weather, path=place, to="triton", **given)
    with pytest.raises(ExportError, match="does not exist; create it"):
        peirce.export(weather, path=tmp_path / "a" / "b", to="triton")
    assert not list(tmp_path.iterdir())
    place.write_text("mine")
    with pytest.raises(ExportError, match="is not a folder, and a repository is one"):
        peirce.export(weather, path=place, to="triton")
    assert place.read_text() == "mine"


class Centred(LoadedModel):
    """Rows of numbers, from which some part of the mean of the batch is taken."""

    providers = ("numpy",)

    def __init__(self, part: float) -> None:
        self.part = part
        dims = ("batch", "length")
        self.signature = Signature(
            [TensorSpec(name="ids", dtype="int64", dims=dims, high=9)],
            [TensorSpec(name="out", dtype="float", dims=dims)],
        )

    def dtype(self, name: str) -> np.dtype[Any]:
        return np.dtype(np.int64 if name == "ids" else np.float32)

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]], outputs: Sequence[str]) -> list[Any]:
        return [(feeds["ids"] - self.part * feeds["ids"].mean(0, keepdims=True)).astype(np.float32)]

    def close(self) -> None:
        pass


def test_rows_that_depend_on_each_other_are_found_by_running_them() -> None:
    assert rows_are_independent(peirce.Session.over(Centred(0.0), "numbers"), "float32", 0)
    assert not rows_are_independent(peirce.Session.over(Centred(0.1), "numbers"), "float32", 0)
