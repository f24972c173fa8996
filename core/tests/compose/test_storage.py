"""Saved models come back as they were, and whatever is wrong with a file is said."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_specs import FOLNET, TRANSFORMER

import peirce
from peirce.compose import ProvenanceWarning
from peirce.errors import ModelFileError
from peirce.model import Model
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_export import exported_file

IDS = torch.randint(40, (2, 5), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def saved(tmp_path: Path, registry: Registry) -> Path:
    peirce.build(FOLNET, registry=registry).save(tmp_path / "model", assets={"sub/words.txt": b"words"})
    return tmp_path / "model"


@pytest.mark.parametrize("spec", [FOLNET, TRANSFORMER], ids=lambda s: s.name)
@pytest.mark.parametrize("fuse", [True, False])
def test_a_model_comes_back(spec: Spec, fuse: bool, tmp_path: Path, registry: Registry) -> None:
    model = peirce.build(spec, registry=registry, fuse=fuse).eval()
    model.save(tmp_path / "m")
    back = peirce.load(tmp_path / "m", registry=registry, fuse=not fuse).eval()
    assert back.spec == model.spec
    assert back.provenance == model.provenance
    for name, value in model(input_ids=IDS).items():
        assert torch.allclose(value, back(input_ids=IDS)[name], atol=1e-5)
    files = ["README.md", "provenance.json", "spec.toml", "weights.safetensors"]
    assert sorted(os.listdir(tmp_path / "m")) == files
    assert peirce.load(tmp_path / "m", registry=registry, dtype=torch.float64).dtype == torch.float64


def test_saving_again_replaces_the_model_and_keeps_the_rest(saved: Path, registry: Registry) -> None:
    (saved / "notes.txt").write_text("mine")
    other = peirce.build(FOLNET, seed=5, registry=registry)
    other.save(saved)
    assert (saved / "notes.txt").read_text() == "mine"
    assert not (saved / "assets").exists(), "the assets of the model before are no part of this one"
    back = peirce.load(saved, registry=registry)
    assert all(torch.equal(v, back.state_dict()[k]) for k, v in other.state_dict().items())
    assert [p.name for p in saved.parent.iterdir()] == ["model"]


def test_a_save_that_fails_leaves_what_stood_there(
    saved: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {p: p.read_bytes() for p in saved.rglob("*") if p.is_file()}
    model = peirce.build(FOLNET, seed=5, registry=registry)
    model.provenance["unwritable"] = object()
    with pytest.raises(TypeError):
        model.save(saved)
    assert before == {p: p.read_bytes() for p in saved.rglob("*") if p.is_file()}
    assert [p.name for p in saved.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip file" * 10, None])
def test_a_truncated_or_foreign_weights_file_is_said_to_be_one(
    content: bytes | None, saved: Path, registry: Registry
) -> None:
    weights = saved / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100] if content is None else content)
    with pytest.raises(ModelFileError, match="truncated or from another"):
        peirce.load(saved, registry=registry, digests=False)


def test_tensors_that_do_not_fit_are_listed(saved: Path, registry: Registry) -> None:
    weights = saved / "weights.safetensors"
    state = load_file(weights)
    state["stranger"] = torch.zeros(2)
    state["heads.mlm.bias"] = torch.zeros(3)
    del state["network.pooler.dense.bias"]
    save_file(state, weights)
    with pytest.raises(ModelFileError) as caught:
        peirce.load(saved, registry=registry, digests=False)
    for word in (
        "unknown: stranger",
        "misshapen: heads.mlm.bias is [3] and must be [",
        "missing: network.pooler.dense.bias",
    ):
        assert word in str(caught.value)


@pytest.mark.parametrize("name", ["spec.toml", "weights.safetensors", "provenance.json", ""])
def test_what_is_missing_is_named(name: str, saved: Path, registry: Registry) -> None:
    shutil.rmtree(saved) if name == "" else (saved / name).unlink()
    with pytest.raises(ModelFileError, match=name or "there is no such folder"):
        peirce.load(saved, registry=registry)


def _edit(saved: Path, part: str, **changes: str) -> None:
    path = saved / "provenance.json"
    recorded = json.loads(path.read_text())
    recorded["parts"][part] = {**recorded["parts"].get(part, {}), **changes}
    path.write_text(json.dumps(recorded))


def test_missing_plugins_are_one_message(saved: Path, registry: Registry) -> None:
    for name in ("compose", "hadamard"):
        _edit(saved, f"operators.{name}", plugin="other:ops", distribution="peirce-other", version="2.0")
    with pytest.raises(ModelFileError) as caught:
        peirce.load(saved, registry=registry, digests=False)
    for word in ("operators.compose", "operators.hadamard", "peirce-other 2.0 (other:ops)"):
        assert word in str(caught.value)


def test_another_version_is_one_warning(saved: Path, registry: Registry) -> None:
    _edit(saved, "operators.join", version="0.0.1")
    _edit(saved, "operators.mu", version="0.0.1")
    with pytest.warns(ProvenanceWarning) as caught:
        model = peirce.load(saved, registry=registry, digests=False)
    assert isinstance(model, Model)
    assert len(caught) == 1
    assert "operators.join was from peirce-folnet 0.0.1" in str(caught[0].message)
    assert "operators.mu" in str(caught[0].message)


@pytest.mark.parametrize("name", ["../out.txt", "/tmp/out.txt", "a/../../out.txt", "", "."])
def test_an_asset_stays_in_the_model_s_folder(name: str, saved: Path, registry: Registry) -> None:
    with pytest.raises(ModelFileError, match="must be a relative path below assets/"):
        peirce.build(FOLNET, registry=registry).save(saved, assets={name: b"x"})
    assert [p.name for p in saved.parent.iterdir()] == ["model"]


def test_a_file_that_waits_removes_nothing_outside_the_folder(saved: Path, registry: Registry) -> None:
    """A stranger's folder may hold a list of what the model before had."""
    mine = saved.parent / "mine.txt"
    mine.write_text("mine")
    generation = json.loads((saved / "provenance.json").read_text())["generation"]
    waiting = saved / f".generation-{generation}"
    waiting.mkdir()
    (waiting / "obsolete.json").write_text(json.dumps(["../mine.txt", str(mine), "assets/../../mine.txt", 3]))
    peirce.build(FOLNET, registry=registry).save(saved)
    assert mine.read_text() == "mine"
    assert not waiting.exists()


def test_a_place_that_cannot_be_written_is_named(saved: Path, registry: Registry) -> None:
    model = peirce.build(FOLNET, seed=5, registry=registry)
    with pytest.raises(ModelFileError, match="is a file; a model is saved as a directory"):
        model.save(saved / "spec.toml")
    with pytest.raises(ModelFileError, match=r"cannot be saved in .*spec.toml/x"):
        model.save(saved / "spec.toml" / "x")
    provenance = (saved / "provenance.json").read_bytes()
    (saved / "provenance.json").write_bytes(b"old")
    (saved / "weights.safetensors").unlink()
    (saved / "weights.safetensors").mkdir()
    with pytest.raises(
        ModelFileError, match=r"weights.safetensors is a directory.*what was there is unchanged"
    ):
        model.save(saved)
    assert (saved / "provenance.json").read_bytes() == b"old" != provenance
    assert [p.name for p in saved.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.float8_e4m3fn, torch.complex64])
def test_weights_of_a_type_that_no_model_has_are_refused(
    dtype: torch.dtype, saved: Path, registry: Registry
) -> None:
    path = saved / "weights.safetensors"
    save_file({name: value.to(dtype) for name, value in load_file(path).items()}, path)
    with pytest.raises(ModelFileError, match=r"of the wrong type: .* and must be float32"):
        peirce.load(saved, registry=registry, digests=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\xff\xfe", "cannot be read"),
        ("[1, 2]", "has no format and parts"),
        ('{"format": 1, "parts": {"join": {}}}', "is damaged: each of its parts must be KIND.NAME"),
        ('{"format": 1, "parts": {"operators.join": {}}}', "is damaged: each of its parts"),
        ('{"format": 2, "parts": {}}', "must list the model's files with their digests"),
        ('{"format": 0, "parts": {}}', "must list the model's files with their digests"),
        ("[" * 100_000, "cannot be read"),
        ('{"format": 3, "parts": {"join": 3}}', "newer than 2"),
    ],
)
def test_a_damaged_provenance_is_one_sentence(
    text: str, message: str, saved: Path, registry: Registry
) -> None:
    (saved / "provenance.json").write_text(text, encoding="latin-1")
    with pytest.raises(ModelFileError, match=message):
        peirce.load(saved, registry=registry)


def test_what_makes_an_exported_file_is_said(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for source, said in (
        ("small.toml", "is a spec, and has no trained weights; `peirce train small.toml"),
        ("nowhere", "there is no folder nowhere; `peirce train SPEC -o nowhere`"),
        (tmp_path, r"has no spec\.toml, provenance\.json; `peirce train"),
        (saved, r"has no model\.onnx; `peirce export"),
    ):
        with pytest.raises(ModelFileError, match=said):
            exported_file(source)
    (saved / "model.onnx").touch()
    assert exported_file(saved) == saved / "model.onnx"
