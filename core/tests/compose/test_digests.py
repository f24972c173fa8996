"""No bit of a saved model changes without notice; and a dtype is the one that was saved."""

from __future__ import annotations

import json
import random
import re
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from command_line import exit_code
from safetensors.torch import load_file, save_file
from small_specs import FOLNET, TRANSFORMER

import peirce
from peirce.compose import ProvenanceWarning
from peirce.errors import ModelFileError
from peirce.files import NO_DIGESTS
from peirce.model import saved_files
from peirce.registry import Registry

FILES = ("spec.toml", "weights.safetensors", "provenance.json", "assets/sub/words.txt")


@pytest.fixture
def saved(tmp_path: Path, registry: Registry) -> Path:
    model = peirce.build(TRANSFORMER, registry=registry)
    model.save(tmp_path / "model", assets={"sub/words.txt": b"words"})
    return tmp_path / "model"


def flips(path: Path, count: int, seed: int) -> Iterator[None]:
    """Flip a bit of a file, many times, at random places; each is put back."""
    draw, size = random.Random(f"{path.name} {seed}"), path.stat().st_size
    for _ in range(count):
        place, bit = draw.randrange(size), draw.randrange(8)
        _flip(path, place, bit)
        yield
        _flip(path, place, bit)


def _flip(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


def _contents(saved: Path) -> dict[str, bytes | str]:
    with saved_files(saved) as files:
        names = ("spec.toml", "weights.safetensors", *(f"assets/{name}" for name in files.assets))
        return {
            "provenance.json": json.dumps(files.provenance, sort_keys=True),
            **{n: files.read(n) for n in names},
        }


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_refused_or_changes_nothing(name: str, saved: Path) -> None:
    before, tries = _contents(saved), 150
    refused = [_refusal(saved, before) for _ in flips(saved / name, tries, 0)]
    said = [text for text in refused if text is not None]
    assert len(said) > 0.9 * tries
    assert all(name in text and "\n" not in text for text in said)
    assert _refusal(saved, before) is None


def _refusal(saved: Path, before: object) -> str | None:
    """Why a folder is refused; None where it holds what it held before."""
    try:
        found = _contents(saved)
    except ModelFileError as error:
        return str(error)
    assert found == before
    return None


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_refused_by_everything_that_opens(
    name: str,
    saved: Path,
    registry: Registry,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = saved / name
    content = path.read_bytes()
    path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    with pytest.raises(ModelFileError, match=name):
        peirce.load(saved, registry=registry)
    if name == "weights.safetensors":
        assert peirce.load(saved, registry=registry, digests=False)
        monkeypatch.setenv(NO_DIGESTS, "1")
        assert peirce.load(saved, registry=registry)
        with pytest.raises(ModelFileError, match=name):
            peirce.load(saved, registry=registry, digests=True)
    monkeypatch.delenv(NO_DIGESTS, raising=False)
    assert exit_code("verify", saved, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["passed"]
    assert any(name in note for note in report["notes"])
    if name != "provenance.json":
        assert {n: f["state"] for n, f in report["files"].items() if f["state"] != "ok"} == {name: "damaged"}


def test_a_whole_folder_passes_and_one_of_another_save_does_not(
    saved: Path, registry: Registry, tmp_path: Path
) -> None:
    report = peirce.verify(saved)
    assert report.passed
    peirce.build(TRANSFORMER, seed=1, registry=registry).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "weights.safetensors", saved)
    report = peirce.verify(saved)
    assert not report.passed
    assert "weights.safetensors is not what was saved" in report.notes[0]
    (saved / "assets" / "sub" / "words.txt").unlink()
    with pytest.raises(ModelFileError, match=r"assets/sub/words\.txt is missing"):
        peirce.load(saved, registry=registry)
    assert "words.txt is missing" in peirce.verify(saved).notes[0]


def test_a_model_that_is_open_does_not_follow_its_file(saved: Path, registry: Registry) -> None:
    model = peirce.load(saved, registry=registry)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    path = saved / "weights.safetensors"
    path.write_bytes(b"\0" * path.stat().st_size)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_layout_of_provenance_may_change_and_no_value(saved: Path, registry: Registry) -> None:
    path = saved / "provenance.json"
    recorded = json.loads(path.read_text())
    path.write_text(json.dumps(recorded, sort_keys=True))
    assert peirce.load(saved, registry=registry)
    path.write_text(json.dumps({**recorded, "note": "by another tool"}))
    with pytest.raises(ModelFileError, match=r"provenance\.json is not what was saved.*digests=False"):
        peirce.load(saved, registry=registry)
    path.write_text(
        json.dumps({**recorded, "sha256": {**recorded["sha256"], "assets/../../secret": "0" * 64}})
    )
    with pytest.raises(ModelFileError, match="must list the model's files"):
        peirce.load(saved, registry=registry)


def as_0_1_saved_it(saved: Path) -> None:
    """Make a folder what Peirce 0.1.0 wrote: one distribution; no digests, generation and dtype."""
    path = saved / "provenance.json"
    recorded = json.loads(re.sub(r'"peirce-(\w+)(:\w+)?"', r'"peirce\2"', path.read_text()))
    assert recorded["parts"]["operators.join"]["plugin"] == "peirce:folnet"
    kept = {key: recorded[key] for key in ("peirce", "torch", "parts")}
    path.write_text(json.dumps({"format": 1, **kept}))


def test_a_model_of_0_1_opens_and_is_said_to_have_no_digests(saved: Path, registry: Registry) -> None:
    before = peirce.load(saved, registry=registry).state_dict()
    as_0_1_saved_it(saved)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ProvenanceWarning)
        after = peirce.load(saved, registry=registry)
    assert all(torch.equal(value, before[name]) for name, value in after.state_dict().items())
    report = peirce.verify(saved)
    assert report.passed
    assert "without digests" in report.notes[0]
    after.save(saved)
    assert not (saved / "assets").exists(), "of a model of 0.1 all assets are the model's"
    assert peirce.verify(saved).notes == ()


def test_weights_of_another_dtype_are_taken_or_converted_when_asked(saved: Path, registry: Registry) -> None:
    weights = saved / "weights.safetensors"
    state = load_file(weights)
    save_file({k: v.half() if v.is_floating_point() else v for k, v in state.items()}, weights)
    with pytest.raises(ModelFileError, match=r"weights\.safetensors is not what was saved"):
        peirce.load(saved, registry=registry)
    assert peirce.load(saved, registry=registry, digests=False).dtype == torch.float16
    model = peirce.load(saved, registry=registry, digests=False, dtype=torch.float32)
    assert {t.dtype for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()} == {
        torch.float32
    }
    model(input_ids=torch.tensor([[1, 2, 3]]))
    as_0_1_saved_it(saved)
    assert peirce.load(saved, registry=registry).dtype == torch.float16


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("spec", [FOLNET, TRANSFORMER], ids=lambda spec: spec.name)
def test_a_model_comes_back_in_the_dtype_that_it_was_saved_in_with_all_its_buffers(
    dtype: torch.dtype, spec: peirce.Spec, tmp_path: Path, registry: Registry
) -> None:
    model = peirce.build(spec, registry=registry, dtype=dtype).eval()
    model.register_buffer("scale", torch.ones(3, dtype=dtype), persistent=False)
    model.save(tmp_path)
    recorded = json.loads((tmp_path / "provenance.json").read_text())["dtype"]
    assert recorded == str(dtype).removeprefix("torch.")
    back = peirce.load(tmp_path, registry=registry).eval()
    assert {t.dtype for t in (*back.parameters(), *back.buffers()) if t.is_floating_point()} == {dtype}
    ids = torch.tensor([[1, 2, 3]])
    for name, value in model(input_ids=ids).items():
        torch.testing.assert_close(back(input_ids=ids)[name], value)


def test_a_mixture_that_was_saved_comes_back_as_it_was(tmp_path: Path, registry: Registry) -> None:
    model = peirce.build(TRANSFORMER, registry=registry)
    head = next(iter(model.heads.values())).double()
    model.save(tmp_path)
    back = peirce.load(tmp_path, registry=registry)
    kinds = {name: value.dtype for name, value in model.named_parameters()}
    assert torch.float64 in {value.dtype for value in head.parameters()}
    assert {name: value.dtype for name, value in back.named_parameters()} == kinds
