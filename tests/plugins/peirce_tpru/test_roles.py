"""`peirce roles`: each recurrence's fillers at each token, whichever end it reads from; picture, JSON, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from peirce.compose import build
from peirce.errors import TaskError
from peirce.registry import load_spec
from peirce.spec import Spec
from peirce_text import Tokenizer
from peirce_tpru.cli import roles
from peirce_tpru.operators.tpru import TPRU
from peirce_tpru.roles import read_roles

SPEC = """
format = 1
[model]
name = "small"
architecture = "recurrent"
dims = { layers = 1, unary = 8 }
input = { vocabulary = 20 }
operators = { layer = "tpru", options = { tpru = { roles = 6 } } }
"""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    build(Spec.from_toml(SPEC), seed=0).save(tmp_path / "model")
    return tmp_path / "model"


def test_both_directions_are_read_in_the_order_of_the_text(saved: Path) -> None:
    model = build(Spec.from_toml(SPEC), seed=0).eval()
    atoms = model.network.input.unary(model.network.input.tokens({"input_ids": torch.tensor([[5, 17, 3]])}))
    found = read_roles(saved, ["5 17 3"])
    assert found.tokens == ("5", "17", "3")
    assert [each.name for each in found.bindings] == ["layers.0.forwards", "layers.0.backwards"]
    for binding, unit in zip(
        found.bindings, [m for m in model.modules() if isinstance(m, TPRU)], strict=True
    ):
        assert binding.shares.shape == (3, 6)
        np.testing.assert_allclose(binding.shares.sum(1), 1, rtol=1e-5)
        # The token that a recurrence meets first depends on no state.
        first = 2 if binding.name.endswith("backwards") else 0
        read = unit.read(atoms)[0, first, :6] + unit.state_offset.clamp(min=0)
        shares = (read.square() / read.square().sum()).detach().numpy()
        np.testing.assert_allclose(binding.shares[first], shares, rtol=1e-4)


@pytest.mark.parametrize("texts", [["5 17 3"], ["5", "17 3"]])
@pytest.mark.parametrize("name", ["pair-tpru", "pair-bidaf"])
def test_a_model_of_pairs_reads_one_text_or_two(name: str, texts: list[str], tmp_path: Path) -> None:
    small = {"model.dims.unary": 8, "model.dims.embedding": 4, "model.operators.options.tpru.roles": 6}
    build(load_spec(name, small), seed=0).save(tmp_path / "pairs")
    found = read_roles(tmp_path / "pairs", texts)
    assert found.tokens == ("5", "17", "3")
    for binding in found.bindings:
        assert binding.shares.shape == (3, 6)
        np.testing.assert_allclose(binding.shares.sum(1), 1, rtol=1e-5)


def test_a_picture_and_json(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (saved / "assets").mkdir()
    tokenizer = Tokenizer.train(["a b c a b c"], vocabulary=20)
    (saved / "assets" / "tokenizer.json").write_bytes(tokenizer.content)
    roles(saved, ["a b", "c"], count=2)
    assert "<svg" in Path("roles.svg").read_text(encoding="utf-8")
    assert "roles.svg: 6 tokens, 2 recurrences" in capsys.readouterr().out
    with pytest.raises(TaskError, match=r"roles.svg is there already; name a picture with -o"):
        roles(saved, ["a b", "c"], count=2)
    roles(saved, ["a b"], count=2, json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["tokens"] == ["[CLS]", "a", "b", "[SEP]"]
    (strongest, *_) = said["recurrences"][0]["strongest"]
    assert len(strongest) == 2
    assert strongest[0]["share"] >= strongest[1]["share"]


def test_what_cannot_be_shown_is_named(saved: Path, tmp_path: Path) -> None:
    gru = SPEC.replace('layer = "tpru", options = { tpru = { roles = 6 } }', 'layer = "gru"')
    build(Spec.from_toml(gru)).save(tmp_path / "gru")
    for folder, texts, how, said in (
        (saved, ["5 rain"], {}, "'rain' is none"),
        (saved, [" "], {}, "the text is empty"),
        (saved, ["5", "6", "7"], {}, "give one, or two of a pair"),
        (saved, ["5"], {"output": tmp_path / "roles.bmp"}, "names no format of pictures"),
        (tmp_path / "gru", ["5"], {"json": True}, "has no recurrence `tpru`"),
    ):
        with pytest.raises(TaskError, match=said):
            roles(folder, texts, **{"json": True, **how})
