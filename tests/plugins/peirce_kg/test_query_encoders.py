"""The ready query encoders on a small graph: batches tell them of query graphs, they train, and can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peirce.compose import build, export
from peirce.errors import TaskError
from peirce.model import Model
from peirce.registry import Registry, load_spec
from peirce_kg.ask import Asker
from peirce_kg.encoding.graph_inputs import token_graph
from peirce_kg.engine.answers import to_ids
from peirce_kg.parts.positions.query_graph import GRAPH_INPUTS
from peirce_kg.task import KgQa, KgQaData, KgQaOptions, model_scorer
from small_specs import NARROW

SMALL_FOLNET = {**NARROW, "model.dims.head_size": 8, "model.dims.binary": 8}
SMALL_RECURRENT = {name: value for name, value in NARROW.items() if name != "model.dims.heads"}
SMALL: Mapping[str, Mapping[str, Any]] = {
    "folnet-queries": SMALL_FOLNET,
    "sqe-gru": SMALL_RECURRENT,
    "sqe-lstm": SMALL_RECURRENT,
    "transformer-absolute-adjacency": NARROW,
    "transformer-disentangled": NARROW,
    "transformer-relative-directed-distance": NARROW,
}


@pytest.fixture(scope="module")
def task() -> KgQa:
    options = KgQaOptions(
        graph="nations", types=("1p", "2i", "up"), train_queries=40, eval_queries=10, batch_size=64
    )
    return KgQa(options)


@pytest.fixture(scope="module")
def data(task: KgQa) -> KgQaData:
    return task.prepare()


def _model(name: str, task: KgQa, data: KgQaData, registry: Registry) -> Model:
    spec = load_spec(name, {**task.overrides(data), **SMALL[name], "model.regularisation.dropout": 0.0})
    return build(spec, registry=registry)


def test_every_row_has_the_graph_of_its_query(task: KgQa, data: KgQaData) -> None:
    graphs = {len(q.nodes): q for q in data.graphs["train"]}
    assert len(graphs) == 3  # three types of three lengths
    for batch in task.batches(data, "train", seed=0, epoch=0):
        for row, mask in enumerate(batch["attention_mask"]):
            graph = graphs[int(mask.sum())]
            for name in GRAPH_INPUTS:
                known = getattr(graph, name.removeprefix("graph_"))
                assert np.array_equal(batch[name][row][mask].numpy(), known)


@pytest.mark.parametrize("name", SMALL)
def test_a_few_steps_learn(name: str, task: KgQa, data: KgQaData, registry: Registry) -> None:
    model = _model(name, task, data, registry)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for epoch in range(8):
        for batch in task.batches(data, "train", 0, epoch):
            loss = task.loss(model, batch)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    assert 0 < task.metrics(model, data, "test")["entailed/mrr"] <= 1


@pytest.mark.thorough
def test_an_exported_model_is_told_of_query_graphs_too(
    task: KgQa, data: KgQaData, registry: Registry, tmp_path: Path
) -> None:
    model = _model("transformer-absolute-adjacency", task, data, registry)
    model.save(tmp_path, assets=task.assets(data))
    export(model, path=tmp_path / "model.onnx", to="onnx", registry=registry)
    query = data.sets["test"][-1].query(0, data.graph)
    scores = model_scorer(model.eval(), data.vocabulary)(*to_ids(query, data.graph))[0]
    answers = Asker(tmp_path).ask(str(query), top=5).answers
    np.testing.assert_allclose([a.score for a in answers], np.sort(scores)[::-1][:5], atol=1e-4)


def test_queries_without_a_graph_are_refused(data: KgQaData, registry: Registry) -> None:
    lisp = KgQa(KgQaOptions(graph="nations", types=("1p",), train_queries=5, eval_queries=2, syntax="lisp"))
    own = lisp.prepare()
    (batch,) = lisp.batches(own, "train", 0, 0)
    assert not set(GRAPH_INPUTS) & set(batch)
    model = _model("transformer-absolute-adjacency", lisp, own, registry)
    with pytest.raises(TaskError, match="looks at query graphs, and these queries have none"):
        lisp.check(model, own)
    with pytest.raises(TaskError, match="looks at query graphs, and these queries have none"):
        lisp.loss(model, batch)
    assert token_graph(data.sets["train"][0].template.query) is token_graph(
        data.sets["train"][0].template.query
    )
