"""Published FOLNet checkpoints: their numbers, the way in, the way back, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import exit_code as run
from safetensors.torch import load_file, save_file
from small_specs import FOLNET
from torch import Tensor

import peirce
from peirce.errors import ModelFileError
from peirce.registry import Registry
from peirce_folnet.checkpoints.folnet import export_folnet, import_folnet

CASES = ("ja", "ja-ape", "jm.ap", "jmc.atp", "jmc.atp-ape-only", "jmc.atp-diag-scl", "jmc.atp-reglu")
BIAS = "cls.heads.predictions.bias"
TOLERANCE = 1e-5
"""Relative to the largest entry of an output, in float32."""


def golden(shared: Path, case: str) -> tuple[Path, Path, dict[str, Tensor]]:
    folder = shared / "golden" / "folnet" / case
    arrays = {name: torch.from_numpy(value) for name, value in np.load(folder / "io.npz").items()}
    return folder / "config.json", folder / "weights.safetensors", arrays


def inputs_of(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: arrays[name].long() for name in ("input_ids", "token_type_ids")}


def agree(found: dict[str, Tensor], arrays: dict[str, Tensor]) -> None:
    expected = {name: value for name, value in arrays.items() if name not in ("input_ids", "token_type_ids")}
    assert set(expected) == set(found)
    for name, value in expected.items():
        error = (found[name] - value).abs().max() / value.abs().max()
        assert error < TOLERANCE, f"{name}: relative error {error:.2e}"


@pytest.mark.parametrize("case", CASES)
def test_every_output_agrees_with_the_published_code_and_the_way_back_is_equal_to_the_bit(
    case: str, shared: Path, registry: Registry, tmp_path: Path
) -> None:
    config, weights, arrays = golden(shared, case)
    model = import_folnet(config, weights, tmp_path / "model", registry=registry).eval()
    assert not model.spec.scope.mask_padding
    with torch.no_grad():
        agree(model(**inputs_of(arrays)), arrays)
    for fuse in (True, False):  # saved and loaded, fused and not
        loaded = peirce.load(tmp_path / "model", fuse=fuse, registry=registry).eval()
        with torch.no_grad():
            agree(loaded(**inputs_of(arrays)), arrays)
    export_folnet(tmp_path / "model", tmp_path / "back", registry=registry)
    assert (tmp_path / "back" / "config.json").read_bytes() == config.read_bytes()
    assert (tmp_path / "back" / "weights.safetensors").read_bytes() == weights.read_bytes()


def test_a_model_of_ones_own_goes_out_and_comes_back(registry: Registry, tmp_path: Path) -> None:
    changes = {"model.options.diag_link": True, "model.scope.mask_padding": False}
    model = peirce.build(FOLNET.replace(changes), registry=registry).eval()
    model.save(tmp_path / "model")
    export_folnet(tmp_path / "model", tmp_path / "out", registry=registry)
    back = import_folnet(
        tmp_path / "out" / "config.json",
        tmp_path / "out" / "weights.safetensors",
        tmp_path / "back",
        registry=registry,
    ).eval()
    ids = torch.randint(40, (2, 5), generator=torch.Generator().manual_seed(0))
    for name, value in model(input_ids=ids).items():
        assert torch.equal(value, back(input_ids=ids)[name])


def test_torch_files_are_read_without_pickled_code(shared: Path, registry: Registry, tmp_path: Path) -> None:
    config, weights, arrays = golden(shared, "jm.ap")
    torch.save(load_file(weights), tmp_path / "weights.pt")
    model = import_folnet(config, tmp_path / "weights.pt", tmp_path / "model", registry=registry).eval()
    with torch.no_grad():
        agree(model(**inputs_of(arrays)), arrays)
    torch.save({"state": Path("code")}, tmp_path / "code.pt")
    with pytest.raises(ModelFileError, match="state dict and nothing else"):
        import_folnet(config, tmp_path / "code.pt", tmp_path / "other", registry=registry)
    torch.save({"epoch": 3, "model": {}}, tmp_path / "nested.pt")
    with pytest.raises(ModelFileError, match="save its state dict alone"):
        import_folnet(config, tmp_path / "nested.pt", tmp_path / "other", registry=registry)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("name", "harm", "words"),
    [
        ("folnet.dense.bias", None, "missing: folnet.dense.bias"),
        ("folnet.dense.scale", lambda t: torch.zeros(1), "unknown: folnet.dense.scale"),
        (BIAS, lambda t: torch.zeros(3), rf"{BIAS} is \[3\] and must be \[64\]"),
        ("cls.heads.predictions.decoder.weight", lambda t: t + 1, "not tied"),
        ("folnet.dense.weight", lambda t: t * float("nan"), "not finite: folnet.dense.weight"),
        (
            "folnet.dense.weight",
            lambda t: t.long(),
            "not floating: folnet.dense.weight is int64",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    name: str, harm: Any, words: str, shared: Path, registry: Registry, tmp_path: Path
) -> None:
    config, weights, _ = golden(shared, "ja")
    tensors = load_file(weights)
    tensor = tensors.pop(name, None)
    if harm is not None:
        tensors[name] = harm(tensor)
    save_file(tensors, tmp_path / "wrong.safetensors")
    with pytest.raises(ModelFileError, match=words):
        import_folnet(config, tmp_path / "wrong.safetensors", tmp_path / "model", registry=registry)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_act": "relu"}, ["hidden_act", "'relu'", "'gelu'"]),
        ({"span_dim": 4}, ["span_dim", "4"]),
        ({"number_heads": 4}, ["number_heads", "num_heads"]),
        ({"pretrain_loss": "MLM.XYZ"}, ["XYZ", "NSP"]),
        ({"num_layers": None}, ["num_layers is missing"]),
        ({"boolean_type": "bilinear"}, ["bilinear", "mlp"]),
    ],
)
def test_configurations_that_are_no_folnet_are_refused(
    change: dict[str, object], words: list[str], shared: Path, registry: Registry, tmp_path: Path
) -> None:
    config, weights, _ = golden(shared, "ja")
    settings = {**json.loads(config.read_text()), **change}
    (tmp_path / "config.json").write_text(json.dumps({k: v for k, v in settings.items() if v is not None}))
    with pytest.raises(ModelFileError) as caught:
        import_folnet(tmp_path / "config.json", weights, tmp_path / "model", registry=registry)
    for word in words:
        assert word in str(caught.value)


def test_a_model_that_is_no_published_folnet_stays_here(registry: Registry, tmp_path: Path) -> None:
    spec = FOLNET.replace({"model.positions": [{"use": "shaw"}]})
    peirce.build(spec, registry=registry).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="position 'shaw'"):
        export_folnet(tmp_path / "model", tmp_path / "out", registry=registry)
    classifier = FOLNET.replace({"model.heads": [{"use": "classification"}]})
    peirce.build(classifier, registry=registry).save(tmp_path / "classifier")
    with pytest.raises(ModelFileError, match=r"heads\.classification\.dense\.weight"):
        export_folnet(tmp_path / "classifier", tmp_path / "out", registry=registry)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model.scope.mask_padding": True}, "mask_padding False in place of True"),
        (
            {"model.scope.kind": "causal", "model.operators.layer": "j.a"},
            "scope.kind 'bidirectional' in place of 'causal'",
        ),
        ({"model.positions": [{"use": "distance", "clip": 8}]}, "distance.cls True in place of False"),
        ({"model.options.wiring": "parallel"}, "wiring 'cascaded' in place of 'parallel'"),
        (
            {"model.operators.layer": [{"use": "join", "activation": "modus_ponens"}]},
            "join.activation 'none' in place of 'modus_ponens'",
        ),
    ],
)
def test_what_the_published_network_does_otherwise_is_refused(
    change: dict[str, object], words: str, registry: Registry, tmp_path: Path
) -> None:
    spec = FOLNET.replace({"model.scope.mask_padding": False, **change})
    peirce.build(spec, registry=registry).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=words):
        export_folnet(tmp_path / "model", tmp_path / "out", registry=registry)
    assert not (tmp_path / "out").exists()


def test_half_precision_goes_round_to_the_bit(shared: Path, registry: Registry, tmp_path: Path) -> None:
    config, weights, _ = golden(shared, "ja")
    halves = {name: tensor.half() for name, tensor in load_file(weights).items()}
    save_file(halves, tmp_path / "half.safetensors")
    model = import_folnet(config, tmp_path / "half.safetensors", tmp_path / "model", registry=registry)
    assert {p.dtype for p in model.parameters()} == {torch.float16}
    export_folnet(tmp_path / "model", tmp_path / "back", registry=registry)
    back = load_file(tmp_path / "back" / "weights.safetensors")
    assert back.keys() == halves.keys()
    assert all(
        back[name].dtype == tensor.dtype and torch.equal(back[name], tensor)
        for name, tensor in halves.items()
    )


def test_the_command_imports_and_goes_back(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, weights, _ = golden(shared, "jmc.atp-diag-scl")
    model, back = tmp_path / "model", tmp_path / "back"
    there = (config, weights, "-o", model)
    assert run("import", "folnet", *there) == 0
    capsys.readouterr()
    assert run("import", "folnet", "--to-published", model, "-o", back, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert Path(said["weights"]).read_bytes() == weights.read_bytes()
    for arguments, message in (
        ((config, "-o", model), "needs two files"),
        (there, f"{model} already has spec.toml"),
        (("--to-published", model, "-o", back), "already has config.json and weights.safetensors"),
    ):
        assert run("import", "folnet", *arguments) == 2
        assert message in capsys.readouterr().err
    assert run("import", "folnet", *there, "--overwrite") == 0
