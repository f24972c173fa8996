"""Which roles tokens bind: each recurrence's fillers at each token, whichever end it reads from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from peirce.compose import build, load
from peirce.registry import load_spec
from peirce.spec import Spec
from peirce_show import Matrix, observe, viewers_for
from peirce_text import Tokenizer
from peirce_tpru.operators.tpru import TPRU
from peirce_tpru.roles import Roles, RolesOptions

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


def _looked(folder: Path, *texts: str, count: int = 6) -> tuple[Matrix, ...]:
    return Roles(RolesOptions(count=count), folder, load(folder).eval()).view(texts, observe).matrices


def test_both_directions_are_read_in_the_order_of_the_text(saved: Path) -> None:
    model = build(Spec.from_toml(SPEC), seed=0).eval()
    atoms = model.network.input.unary(model.network.input.tokens({"input_ids": torch.tensor([[5, 17, 3]])}))
    found = _looked(saved, "5 17 3")
    assert [(each.layer, each.title) for each in found] == [("1", "tpru.forwards"), ("1", "tpru.backwards")]
    for each, unit in zip(found, [m for m in model.modules() if isinstance(m, TPRU)], strict=True):
        assert (each.columns, each.axes, each.share) == (("5", "17", "3"), ("role", "token"), True)
        np.testing.assert_allclose(each.values[0].sum(0), 1, rtol=1e-5)
        assert (np.diff(each.values[0].max(1)) <= 0).all()  # the strongest role first
        # The token that a recurrence meets first depends on no state.
        first = 2 if each.name == "backwards" else 0
        read = unit.read(atoms)[0, first, :6] + unit.state_offset.clamp(min=0)
        shares = (read.square() / read.square().sum()).detach().numpy()
        np.testing.assert_allclose(each.values[0][:, first], shares[list(map(int, each.rows))], rtol=1e-4)
    assert [each.rows for each in _looked(saved, "5 17 3", count=2)] == [each.rows[:2] for each in found]


@pytest.mark.parametrize("texts", [["5 17 3"], ["5", "17 3"]])
@pytest.mark.parametrize("name", ["pair-tpru", "pair-bidaf"])
def test_a_model_of_pairs_reads_one_text_or_two(name: str, texts: list[str], tmp_path: Path) -> None:
    small = {"model.dims.unary": 8, "model.dims.embedding": 4, "model.operators.options.tpru.roles": 6}
    build(load_spec(name, small), seed=0).save(tmp_path / "pairs")
    for each in _looked(tmp_path / "pairs", *texts):
        assert each.values.shape == (1, 6, 3)
        np.testing.assert_allclose(each.values.sum(1), 1, rtol=1e-5)


def test_it_stands_for_the_view_of_texts(tmp_path: Path) -> None:
    gru = SPEC.replace('layer = "tpru", options = { tpru = { roles = 6 } }', 'layer = "gru"')
    for spec, views in ((SPEC, ["roles"]), (gru, ["texts"])):
        assert list(viewers_for(build(Spec.from_toml(spec)), ())) == views
    model = build(Spec.from_toml(SPEC).replace({"model.operators.layer": "tpru"}), seed=0)
    tokenizer = Tokenizer.train(["a b c a b c"], vocabulary=20)
    model.save(tmp_path / "text", {"tokenizer.json": tokenizer.content})
    assert _looked(tmp_path / "text", "a b", "c")[0].columns == ("[CLS]", "a", "b", "[SEP]", "c", "[SEP]")
