"""The ready systems on a small graph: they train, are evaluated with dashes for what they cannot say, and are asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from peirce.compose import build, export
from peirce.errors import TaskError
from peirce.model import Model
from peirce.registry import Registry, load_spec
from peirce_kg.ask import Asker
from peirce_kg.encoding.literal_inputs import UnsupportedQueryError
from peirce_kg.engine.answers import to_ids
from peirce_kg.evaluation import not_supported, protocol, table
from peirce_kg.task import KgQa, KgQaData, KgQaOptions, model_scorer
from rich.console import Console
from shared_folder import ROOT

SMALL: Mapping[str, Mapping[str, Any]] = {
    "betae": {},
    "cone": {},
    "cqd-beam": {"model.heads.0.candidates": 4},
    "cqd-continuous": {"model.heads.0.steps": 4},
    "lmpnn": {"model.augmenters": []},
}

PAGE = ROOT / "docs" / "plugins" / "kg" / "systems.md"


@pytest.fixture(scope="module")
def task() -> KgQa:
    options = KgQaOptions(
        graph="nations", types=("1p",), eval_types=("1p", "up", "2in", "2m"),
        train_queries=60, eval_queries=8, batch_size=60,
    )  # fmt: skip
    return KgQa(options)


@pytest.fixture(scope="module")
def data(task: KgQa) -> KgQaData:
    return task.prepare()


def _model(name: str, task: KgQa, data: KgQaData, registry: Registry) -> Model:
    changes = {"model.dims.unary": 12, **SMALL[name]}
    return build(load_spec(name, changes).replace(task.overrides(data)), registry=registry)


@pytest.mark.parametrize("name", SMALL)
def test_it_learns_and_says_what_it_cannot(name: str, task: KgQa, data: KgQaData, registry: Registry) -> None:
    model = _model(name, task, data, registry).train()
    task.check(model, data)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    (batch,) = task.batches(data, "train", seed=0, epoch=0)
    losses = []
    for _ in range(30):
        loss = task.loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    report = task.report(model, data, "test")
    assert model.training
    refused = {"betae": {"2m"}, "cone": {"2m"}, "lmpnn": set()}.get(name, {"2in"})
    assert set(report.unsupported) == refused
    assert all(set(report.cells[kind]) == {"entailed", "inferred"} for kind in {"1p", "up"} - refused)
    assert all(report.cells[kind] == {} for kind in refused)
    shown = Console(width=200, record=True, quiet=True)
    shown.print(table([report], "systems"))
    said = not_supported(name, report.unsupported)
    if refused:
        assert f"{name} does not support {next(iter(refused))}" in said
        assert report.metrics()["unsupported/types"] == 1
    how, *left_out = task.remarks(model, data, "test")
    assert how == f"MRR and Hits@k: {protocol(report.filtering)}."
    kinds = len(report.cells)
    assert left_out == ([f"Means are over {kinds - 1} of {kinds} types: {said}."] if refused else [])


def test_it_is_not_trained_on_what_it_cannot_say(registry: Registry) -> None:
    task = KgQa(KgQaOptions(graph="nations", types=("1p", "2m"), train_queries=5, eval_queries=2))
    data = task.prepare()
    for name, reason in (("betae", "several atoms speak of e1"), ("cqd-beam", "one atom at a time")):
        with pytest.raises(TaskError, match=rf"2m: .*{reason}.*--set 'types=\[\"1p\"\]'"):
            task.check(_model(name, task, data, registry), data)
    task.check(_model("lmpnn", task, data, registry), data)


@pytest.mark.thorough
def test_an_exported_system_is_asked(task: KgQa, data: KgQaData, registry: Registry, tmp_path: Path) -> None:
    model = _model("betae", task, data, registry).eval()
    model.save(tmp_path, assets=task.assets(data))
    export(model, path=tmp_path / "model.onnx", to="onnx", registry=registry)
    asker = Asker(tmp_path)
    text = "((treaties(uk,e1))|(treaties(cuba,e1)))&(!(embassy(usa,e1)))&(treaties(e1,f))"
    reply = asker.ask(text, top=3)
    scores = model_scorer(model, data.vocabulary)(*to_ids(reply.query, data.graph))[0]
    assert [answer.score for answer in reply.answers] == pytest.approx(
        sorted(scores, reverse=True)[:3], rel=1e-4
    )
    leaf = "(treaties(uk,f))&(embassy(e1,f))"
    with pytest.raises(UnsupportedQueryError, match="existential leaf"):
        asker.ask(leaf)
