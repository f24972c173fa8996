"""Queries as `peirce look` shows them: what every network computes between their tokens, as it was trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_specs import NARROW

from peirce.algebra import attention_of
from peirce.compose import build, load
from peirce.errors import TaskError
from peirce.parts import NoOptions
from peirce.registry import Registry, load_spec
from peirce_kg.encoding.graph_inputs import token_graph
from peirce_kg.task import KgQa, KgQaData, KgQaOptions
from peirce_kg.viewing import Queries
from peirce_queries.languages.conversion import read_query
from peirce_show import View, observe
from peirce_training import TrainingOptions, train

QUERY = "embassy(usa,f) & !accusation(brazil,f)"
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
    assert Queries.shows(model, task.assets(data))
    model.save(folder, task.assets(data))
    return folder


def _looked(folder: Path, *queries: str) -> View:
    return Queries(NoOptions(), folder, load(folder).eval()).view(queries, observe)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_of_pairs_is_read(
    name: str, data: KgQaData, registry: Registry, tmp_path: Path
) -> None:
    sizes = FOLNET if name.startswith("folnet") else SMALL
    view = _looked(_saved(name, tmp_path / name, data, registry, **sizes), QUERY)
    assert (view.name, view.text) == (name, str(read_query(QUERY)))
    first, last = [each for each in view.matrices if each.name == "weights"]
    assert (first.layer, last.layer, " ".join(last.rows)) == ("1", "2", TOKENS)
    assert last.channels == ("mean of 4", *(f"{head} of 4" for head in range(1, 5)))
    np.testing.assert_allclose(last.values[1:].mean(0), last.values[0], rtol=1e-5)
    np.testing.assert_allclose(last.values.sum(2), 1, rtol=1e-5)
    assert not np.allclose(last.values[1], last.values[2])
    if name == "transformer-absolute-adjacency":
        graph = token_graph(read_query(QUERY))
        node = graph.nodes > 0
        unrelated = (node[:, None] & ~node[None, :]) & ~np.eye(LENGTH, dtype=bool)
        assert (last.values[0][unrelated] == 0).all()
    else:
        assert (last.values[0] > 0).all()


def test_a_query_is_written_as_the_model_was_trained(registry: Registry, tmp_path: Path) -> None:
    lisp = "( i ( p ( embassy ) ( usa ) ) ( n ( p ( accusation ) ( brazil ) ) ) )"
    turned = "( ! ( accusation ( brazil f ) ) ) & ( embassy ( usa f ) )"
    for options, tokens in (({"syntax": "lisp"}, lisp), ({"reverse": True}, turned)):
        folder = tmp_path / "-".join(options)
        training = TrainingOptions(steps=2, test_split="")
        train(load_spec("transformer-relative", SMALL), _task(**options), training, folder, registry=registry)
        assert " ".join(_looked(folder, QUERY).matrices[0].rows) == tokens


def test_the_weights_are_those_of_the_layers(data: KgQaData, registry: Registry, tmp_path: Path) -> None:
    folder = _saved("tega", tmp_path / "tega", data, registry, **SMALL)
    model, seen = load(folder).eval(), dict[str, Any]()
    viewer = Queries(NoOptions(), folder, model)
    viewer.view([QUERY], lambda _, inputs, *tokens: seen.update(inputs) or ())
    with torch.no_grad(), attention_of(model) as read:
        model(**{name: torch.from_numpy(values) for name, values in seen.items()})
    shown = [each for each in viewer.view([QUERY], observe).matrices if each.name == "weights"]
    for own, each in zip(read, shown, strict=True):
        assert np.array_equal(own.weights[0].permute(2, 0, 1).numpy(), each.values[1:])


def test_what_cannot_be_read_is_said(data: KgQaData, registry: Registry, tmp_path: Path) -> None:
    folder = _saved("tega", tmp_path / "tega", data, registry, **SMALL)
    with pytest.raises(TaskError, match=r"tega cannot read .*: unknown entity 'uss'\. Did you mean 'us"):
        _looked(folder, "embassy(uss,f)")
    with pytest.raises(TaskError, match="2 queries are given; give one"):
        _looked(folder, QUERY, QUERY)
    assert _looked(_saved("betae", tmp_path / "betae", data, registry), QUERY).matrices == ()
