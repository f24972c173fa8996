"""Ready models on a small graph: encoders and systems train, are evaluated, say what they do not support, are asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from small_specs import NARROW
from thorough import often

from peirce.compose import build
from peirce.errors import TaskError
from peirce.model import Model
from peirce.registry import Registry, load_spec
from peirce_export import export
from peirce_kg.encoding.literal_inputs import UnsupportedQueryError
from peirce_kg.evaluation import KNOWLEDGE, STRATA, table, unsupported_text
from peirce_kg.exported import ExportedModel
from peirce_kg.parts.positions.query_graph import GRAPH_INPUTS
from peirce_kg.task import KgQa, KgQaData, KgQaOptions, model_scorer
from peirce_queries import model_reply, read_query
from peirce_queries.engine.answers import to_ids

RECURRENT = {name: value for name, value in NARROW.items() if name != "model.dims.heads"}
TRANSFORMERS = ("absolute-adjacency", "disentangled", "relative-directed-distance")
ENCODERS: Mapping[str, Mapping[str, Any]] = {
    "folnet-queries": {**NARROW, "model.dims.head_size": 8, "model.dims.binary": 8},
    **dict.fromkeys(("sqe-gru", "sqe-lstm"), RECURRENT),
    **dict.fromkeys(("tega", *(f"transformer-{name}" for name in TRANSFORMERS)), NARROW),
}
SYSTEMS: Mapping[str, Mapping[str, Any]] = {
    "betae": {},
    "clmpt": {"model.augmenters": [], "model.options.heads": 2, "model.regularisation.dropout": 0.0},
    "cone": {},
    "cqd-beam": {"model.heads.0.candidates": 4},
    "cqd-continuous": {"model.heads.0.steps": 4},
    "cqd-hybrid": {"model.augmenters": [], "model.heads.0.links": "", "model.heads.0.candidates": 4},
    "fuzzqe": {"model.options.bases": 3},
    "gqe": {"model.options.margin": 0.4, "model.heads.0.margin": 0.4},
    "query2box": {"model.options.margin": 0.2, "model.heads.0.margin": 0.2},
    "fit": {"model.augmenters": [], "model.heads.0.links": ""},
    "qto": {"model.augmenters": [], "model.heads.0.links": ""},
    "lmpnn": {"model.augmenters": []},
    "q2p": {"model.regularisation.dropout": 0.0},
}
SMALL = {
    **{name: {**sizes, "model.regularisation.dropout": 0.0} for name, sizes in ENCODERS.items()},
    **{name: {"model.dims.unary": 12, **sizes} for name, sizes in SYSTEMS.items()},
}

OFTEN = ("folnet-queries", "sqe-gru", "tega", "betae", "clmpt", "cqd-continuous", "fuzzqe", "gqe", "qto")

Prepared = tuple[KgQa, KgQaData]


def _prepared(*types: str) -> Prepared:
    options = KgQaOptions(
        graph="nations", types=types, eval_types=("1p", "up", "2in", "2m"), train_queries=60, eval_queries=8,
        batch_size=60,
    )  # fmt: skip
    return KgQa(options), KgQa(options).prepare()


@pytest.fixture(scope="module")
def several() -> Prepared:
    return _prepared("1p", "2i", "up")


@pytest.fixture(scope="module")
def one() -> Prepared:
    return _prepared("1p")


def _model(name: str, task: KgQa, data: KgQaData, registry: Registry) -> Model:
    return build(load_spec(name, {**SMALL[name], **task.overrides(data)}), registry=registry)


def test_every_row_has_the_graph_of_its_query(several: Prepared) -> None:
    task, data = several
    graphs = {inputs["input_ids"].shape[1]: inputs for inputs in data.inputs["train"]}
    assert len(graphs) == 3  # three types of three lengths
    for batch in task.batches(data, "train", seed=0, epoch=0):
        for row, mask in enumerate(batch["attention_mask"]):
            own = graphs[int(mask.sum())]
            assert all(np.array_equal(batch[name][row][mask].numpy(), own[name][0]) for name in GRAPH_INPUTS)


@pytest.mark.parametrize("name", often(SMALL, OFTEN))
def test_it_learns_and_is_measured(name: str, one: Prepared, several: Prepared, registry: Registry) -> None:
    task, data = one if name in SYSTEMS else several
    model = _model(name, task, data, registry).train()
    task.check(model, data)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02 if name in SYSTEMS else 1e-2)
    losses = []
    for epoch in range(30 if name in SYSTEMS else 8):
        for batch in task.batches(data, "train", 0, epoch):
            loss = task.loss(model, batch)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    assert np.mean(losses[-4:]) < (0.9 if name in SYSTEMS else 1.0) * np.mean(losses[:4])
    report = task.report(model, data, "test")
    assert model.training
    refused = {"2m"} if name in ("betae", "cone", "fuzzqe", "gqe", "q2p", "query2box") else set()
    refused |= {"2in"} if name.startswith(("cqd", "gqe", "query2box")) else set()
    assert set(report.unsupported) == refused
    assert all({*report.cells[kind]} - {*STRATA} == {*KNOWLEDGE} for kind in {"1p", "up"} - refused)
    assert all(report.cells[kind] == {} for kind in refused)
    said = unsupported_text(name, report.unsupported)
    Console(width=200, record=True, quiet=True).print(table([report], "models"))
    assert 0 < report.metrics()["inferred/mrr"] <= 1
    _, _, *left_out = task.remarks(model, data, "test")
    assert len(left_out) == bool(refused)
    if refused:
        assert f"{name} does not support {min(refused)}" in said
        assert report.metrics()["unsupported/types"] == len(refused)


def test_it_is_not_trained_on_what_it_cannot_say(registry: Registry) -> None:
    task = KgQa(KgQaOptions(graph="nations", types=("1p", "2m"), train_queries=5, eval_queries=2))
    data = task.prepare()
    for name, reason in (("betae", "several atoms speak of e1"), ("cqd-beam", "one atom at a time")):
        with pytest.raises(TaskError, match=rf"2m: .*{reason}.*--set 'types=\[\"1p\"\]'"):
            task.check(_model(name, task, data, registry), data)
    task.check(_model("lmpnn", task, data, registry), data)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["betae", "transformer-absolute-adjacency"])
def test_an_exported_model_is_asked(name: str, one: Prepared, registry: Registry, tmp_path: Path) -> None:
    task, data = one
    model = _model(name, task, data, registry).eval()
    model.save(tmp_path, assets=task.assets(data))
    export(model, path=tmp_path / "model.onnx", to="onnx", registry=registry)
    exported = ExportedModel(tmp_path)
    text = "((treaties(uk,e1))|(treaties(cuba,e1)))&(!(embassy(usa,e1)))&(treaties(e1,f))"
    reply = model_reply(exported, read_query(text), top=3)
    scores = model_scorer(model, data.vocabulary)(*to_ids(read_query(text), data.graph))[0]
    assert [a.score for a in reply.answers] == pytest.approx(sorted(scores, reverse=True)[:3], rel=1e-4)
    if name == "betae":
        with pytest.raises(UnsupportedQueryError, match="existential leaf"):
            exported.rank(read_query("(treaties(uk,f))&(embassy(e1,f))"), 3)


def test_queries_without_a_graph_are_refused(registry: Registry) -> None:
    lisp = KgQa(KgQaOptions(graph="nations", types=("1p",), train_queries=5, eval_queries=2, syntax="lisp"))
    own = lisp.prepare()
    (batch,) = lisp.batches(own, "train", 0, 0)
    assert not set(GRAPH_INPUTS) & set(batch)
    model = _model("transformer-absolute-adjacency", lisp, own, registry)
    for refused in (lambda: lisp.check(model, own), lambda: lisp.loss(model, batch)):
        with pytest.raises(TaskError, match="looks at query graphs, and these queries have none"):
            refused()
