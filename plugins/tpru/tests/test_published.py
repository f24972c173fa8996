"""`peirce import tpru`: the published states, two layers in both directions, and what is refused."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import peirce
from peirce.errors import ModelFileError
from peirce_tpru.cli import tpru
from peirce_tpru.operators.tpru import TPRU
from peirce_tpru.published import NAMES, import_tpru

CONFIG = {"d_hidden": 16, "n_roles": 10, "d_embed": 12, "lr": 0.0005, "model_type": "plain"}
BOTH = {"n_layers": 2, "bidirectional": True}


def written(folder: Path, tensors: dict[str, torch.Tensor], **settings: Any) -> tuple[Path, Path]:
    (folder / "config.json").write_text(json.dumps(CONFIG | settings), encoding="utf-8")
    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / "weights.safetensors")
    return folder / "config.json", folder / "weights.safetensors"


@pytest.fixture
def golden(shared: Path) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The published tensors with the input vectors as a table, one row for each token of the batch; and the numbers."""
    folder = shared / "golden" / "tpru" / "small"
    arrays = {name: torch.from_numpy(value) for name, value in np.load(folder / "io.npz").items()}
    table = {"embedding.weight": arrays["inputs"].flatten(0, 1)}
    return load_file(folder / "weights.safetensors") | table, arrays


def test_the_command_gives_the_published_states(golden: Any, tmp_path: Path) -> None:
    tensors, arrays = golden
    tpru(*written(tmp_path, tensors), tmp_path / "model", json=True)
    model = peirce.load(tmp_path / "model").eval()
    batch, length = arrays["inputs"].shape[:2]
    ids = torch.arange(batch * length).reshape(batch, length)
    real = torch.arange(length) < arrays["lengths"].unsqueeze(1)
    cache = {"memory_0_state": arrays["initial_state"], "memory_input_ids": ids[:, :0]}
    cache["memory_attention_mask"] = real[:, :0]
    with torch.no_grad():
        encoded, _, _ = model.network.advance({"input_ids": ids, "attention_mask": real}, cache)
        from_zeros = model(input_ids=ids, attention_mask=real)["unary"]
    assert (encoded.unary - arrays["states"]).abs().max() < 1e-5 * arrays["states"].abs().max()
    assert from_zeros[~real].eq(0).all()
    assert not torch.equal(from_zeros, encoded.unary)  # the golden states do not begin with zeros


def layered() -> dict[str, torch.Tensor]:
    """The tensors of two layers in both directions, as the published code names them."""
    found = {"en.h0": torch.zeros(1, 16), "embed.weight": torch.randn(5, 12)}
    for n, width in enumerate((12, 32)):
        shapes = {
            "h2fg.weight": (32, 16), "h2fg.bias": (32,), "x2fg.weight": (32, width), "x2fg.bias": (32,),
            "v2ru.weight": (32, 16), "v2ru.bias": (32,), "bias_h": (1,), "bias_x": (1,), "basis": (10, 16),
        }  # fmt: skip
        for side, (key, shape) in product("fb", shapes.items()):
            found[f"en.{side}_layers.{n}.{key}"] = torch.randn(shape)
    return found


@pytest.mark.parametrize("newest", [False, True])
def test_layers_and_directions_find_their_places(newest: bool, tmp_path: Path) -> None:
    tensors = layered()
    given = {re.sub(r"([fb])_layers.(\d)", _alternating, key): value for key, value in tensors.items()}
    files = written(tmp_path, given if newest else tensors, n_layers=2, bidirectional=True)
    model = import_tpru(*files, tmp_path / "model")
    units = [module for module in model.modules() if isinstance(module, TPRU)]
    assert len(units) == 4
    for unit, place in zip(units, ("f_layers.0", "b_layers.0", "f_layers.1", "b_layers.1"), strict=True):
        for theirs, ours in NAMES.items():
            assert torch.equal(unit.state_dict()[ours], tensors[f"en.{place}.{theirs}"])
    assert model(input_ids=torch.tensor([[1, 4, 2]]))["unary"].shape == (1, 3, 32)


def _alternating(found: re.Match[str]) -> str:
    return f"layers.{2 * int(found[2]) + (found[1] == 'b')}"


@pytest.mark.parametrize(("pooling", "classes"), [("max", 1), ("avg", 3)])
def test_a_whole_model_scores_pairs(pooling: str, classes: int, tmp_path: Path) -> None:
    sizes = {"0.weight": (16, 128), "0.bias": (16,), "2.weight": (classes, 16), "2.bias": (classes,)}
    perceptron = {key: torch.randn(shape) for key, shape in sizes.items()}
    tensors = layered() | {f"clser.clser.{key}": value for key, value in perceptron.items()}
    files = written(tmp_path, tensors, n_layers=2, bidirectional=True, pooling=pooling)
    model = import_tpru(*files, tmp_path / "model").eval()
    ids, types = torch.tensor([[1, 4, 2, 3, 1]]), torch.tensor([[0, 0, 0, 1, 1]])
    states = [model(input_ids=ids[:, own])["unary"] for own in (slice(0, 3), slice(3, 5))]
    u, v = (states_.amax(1) if pooling == "max" else states_.mean(1) for states_ in states)
    hidden = torch.cat([u, v, (u - v).abs(), u * v], 1) @ perceptron["0.weight"].T + perceptron["0.bias"]
    expected = hidden.relu() @ perceptron["2.weight"].T + perceptron["2.bias"]
    logits = model(input_ids=ids, token_type_ids=types)["matching_logits"]
    assert torch.allclose(logits[:, -classes:], expected, atol=1e-4, rtol=1e-4)
    assert logits.shape == (1, max(2, classes))


@pytest.mark.parametrize(
    ("settings", "tensors", "words"),
    [
        ({**BOTH, "n_slices": 4}, {}, "n_slices must be 1, not 4"),
        ({**BOTH, "n_role": 4}, {}, "Did you mean 'n_roles'"),
        ({"n_layers": 2}, {}, "unknown: en.b_layers.0"),
        (BOTH, {"en.h0": torch.ones(1, 16)}, "en.h0 is not zero"),
        (BOTH, {"clser.0.bias": torch.ones(3)}, "unknown: clser.0.bias"),
        (BOTH, {"clser.2.bias": torch.ones(3)}, r"missing: clser\.0\.weight"),
        ({"pooling": "min"}, {"clser.2.bias": torch.ones(3)}, "pooling = 'min'"),
        ({"n_embed": 7}, {}, r"n_embed = 7, .*embed\.weight has \d+ rows"),
        ({}, {"embedding.weight": torch.ones(20, 12)}, r"both embedding\.weight and embed\.weight"),
    ],
)
def test_bad_imports(
    settings: dict[str, Any], tensors: dict[str, torch.Tensor], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelFileError, match=words):
        import_tpru(*written(tmp_path, layered() | tensors, **settings), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_without_a_table_the_settings_count_the_tokens(tmp_path: Path) -> None:
    tensors = {key: value for key, value in layered().items() if key != "embed.weight"}
    with pytest.raises(ModelFileError, match=r"no n_embed and the weights no embedding\.weight"):
        import_tpru(*written(tmp_path, tensors, **BOTH), tmp_path / "model")
    model = import_tpru(*written(tmp_path, tensors, **BOTH, n_embed=7), tmp_path / "model")
    assert model.spec.input.vocabulary == 7
