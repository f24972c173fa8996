"""What is read of trained models: every network that has attention, as it was trained, and what cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peirce.compose import build
from peirce.errors import ModelFileError, TaskError
from peirce.registry import Registry, load_spec
from peirce.training import TrainingOptions, train
from peirce_kg.attention.maps import read_attention
from peirce_kg.encoding.graph_inputs import token_graph
from peirce_kg.queries.conversion import read_query
from peirce_kg.task import KgQa, KgQaData, KgQaOptions
from small_specs import NARROW

QUERY = read_query("embassy(usa,f) & !accusation(brazil,f)")
TOKENS = "( embassy ( usa f ) ) & ( ! ( accusation ( brazil f ) ) )"
LENGTH = 18
SMALL = {**NARROW, "model.dims.layers": 2, "model.regularisation.init_std": 0.3}
FOLNET = {**SMALL, "model.dims.head_size": 8, "model.dims.binary": 8}
NETWORKS = ("transformer-disentangled", "transformer-absolute-adjacency", "tega", "folnet-queries")


def _task(**options: Any) -> KgQa:
    return KgQa(KgQaOptions(graph="nations", types=("1p",), train_queries=5, eval_queries=5, **options))


@pytest.fixture(scope="module")
def data() -> KgQaData:
    return _task().prepare()


def _saved(name: str, folder: Path, data: KgQaData, registry: Registry, **changes: Any) -> Path:
    task = _task()
    model = build(load_spec(name, {**task.overrides(data), **changes}), registry=registry)
    model.save(folder, task.assets(data))
    return folder


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_with_attention_is_read(
    name: str, data: KgQaData, registry: Registry, tmp_path: Path
) -> None:
    sizes = FOLNET if name.startswith("folnet") else SMALL
    found = read_attention(_saved(name, tmp_path / name, data, registry, **sizes), QUERY)
    assert (found.model, " ".join(found.tokens)) == (name, TOKENS)
    assert (found.layers, found.heads) == (2, 4)
    ((layer, last),), second = found.maps().items(), found.maps("2")[2]
    assert layer == 2
    assert np.array_equal(last, second)
    heads = [found.maps(head=head)[2] for head in range(1, 5)]
    np.testing.assert_allclose(np.mean(heads, 0), last)
    assert not np.allclose(heads[0], heads[1])
    assert list(found.maps("all")) == [1, 2]
    for each in found.maps("all").values():
        assert each.shape == (LENGTH, LENGTH)
        np.testing.assert_allclose(each.sum(1), 1, rtol=1e-5)
    if name == "transformer-absolute-adjacency":
        graph = token_graph(QUERY)
        node = graph.nodes > 0
        apart = (node[:, None] & ~node[None, :]) & ~np.eye(LENGTH, dtype=bool)
        assert (last[apart] == 0).all()
        assert (last > 0).sum() < last.size
    else:
        assert (last > 0).all()


def test_a_query_is_written_as_the_model_was_trained(registry: Registry, tmp_path: Path) -> None:
    lisp = "( i ( p ( embassy ) ( usa ) ) ( n ( p ( accusation ) ( brazil ) ) ) )"
    turned = "( ! ( accusation ( brazil f ) ) ) & ( embassy ( usa f ) )"
    for options, tokens in (({"syntax": "lisp"}, lisp), ({"reverse": True}, turned)):
        folder = tmp_path / "-".join(options)
        training = TrainingOptions(steps=2, test_split="")
        train(load_spec("transformer-relative", SMALL), _task(**options), training, folder, registry=registry)
        found = read_attention(folder, QUERY)
        assert " ".join(found.tokens) == tokens
        np.testing.assert_allclose(found.maps()[2].sum(1), 1, rtol=1e-5)


def test_what_cannot_be_read_is_said(data: KgQaData, registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"no folder .*nowhere; `peirce train --task kgqa` writes"):
        read_attention(tmp_path / "nowhere", QUERY)
    folder = _saved("tega", tmp_path / "tega", data, registry, **SMALL)
    found = read_attention(folder, QUERY)
    for layer in ("3", "first"):
        wrong = f"tega has no layer {layer}: its attention has layers 1 to 2; give"
        with pytest.raises(TaskError, match=wrong):
            found.maps(layer)
    with pytest.raises(TaskError, match=r"tega has no head 5: its attention has heads 1 to 4; give"):
        found.maps(head=5)
    with pytest.raises(TaskError, match=r"tega cannot read .*: unknown entity 'uss'\. Did you mean 'us"):
        read_attention(folder, read_query("embassy(uss,f)"))
    for name, changes in (("betae", {}), ("folnet-queries", {**FOLNET, "model.operators.layer": "mc.tp"})):
        folder = _saved(name, tmp_path / name, data, registry, **changes)
        with pytest.raises(TaskError, match=f"{name} has no attention to show: nothing in its architecture"):
            read_attention(folder, QUERY)
