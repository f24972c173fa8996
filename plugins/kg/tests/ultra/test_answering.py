"""Fuzzy sets after every step are the published ones; batches, files and the exact engine agree with single queries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from published_numbers import WORDS, off

import peirce
from peirce.errors import ModelFileError, TaskError
from peirce.model import Model
from peirce.registry import Registry, load_spec
from peirce_kg.task import KgQa, KgQaOptions
from peirce_kg.ultra import answering
from peirce_kg.ultra.answering import UltraQuery
from peirce_kg.ultra.program import Program, Step
from peirce_kg.ultra.zero_shot import ZeroShot
from peirce_queries import GivenGraph, Logic, Reply, model_reply, parse_any
from peirce_queries.answering.scores import score_file
from peirce_queries.engine.answers import to_ids
from peirce_queries.graphs.graph import Graph
from peirce_queries.languages.language import parse
from peirce_training.evaluation import check_data

Published = Callable[[str], Model]
Queries = tuple[list[dict[str, Any]], Mapping[str, Any]]


def reply(answerer: ZeroShot, text: str) -> Reply:
    """All entities as answers, and those marked that follow from the training triples."""
    return model_reply(answerer, parse_any(text), 135, splits=("train",))


def program(query: dict[str, Any]) -> tuple[Program, dict[str, Any]]:
    """The published program, and the ids that its names are."""
    words = [step.partition(" ") for step in query["postfix"]]
    steps: Any = tuple(Step(WORDS.get(word, word), name) for word, _, name in words)
    return steps, {step.name: np.array([int(step.name)]) for step in steps if step.name}


def test_fuzzy_sets_of_every_step(published: Published, umls: Graph, queries: Queries) -> None:
    answerer = UltraQuery(published("ultraquery"), umls.index("train"))
    for query in queries[0]:
        steps, ids = program(query)
        found = torch.cat([members for _, members in answerer.run(steps, ids, ids)])
        assert off(found, queries[1][f"steps_{query['id']}"]) < 1e-4, query["type"]


LOGICS: dict[str, tuple[str, Logic, float]] = {
    "probs": ("ultraquery", "product", 0.0),
    "probs_godel": ("ultraquery", "godel", 0.0),
    "probs_lukasiewicz": ("ultraquery", "lukasiewicz", 0.0),
    "probs_ultra_3g_threshold_0.8": ("ultra_3g", "product", 0.8),
}


@pytest.mark.parametrize("key", LOGICS)
def test_other_logics_and_thresholds(published: Published, umls: Graph, queries: Queries, key: str) -> None:
    name, logic, threshold = LOGICS[key]
    answerer = UltraQuery(published(name), umls.index("train"), logic)
    assert answerer.network.options.threshold == threshold
    for row, query in enumerate(queries[0]):
        if query["type"] in ("3i", "up", "pni"):
            steps, ids = program(query)
            *_, (_, members) = answerer.run(steps, ids, ids)
            assert off(members[0], queries[1][key][row]) < 1e-4


def test_small_portions(published: Published, umls: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    model, index = published("ultraquery"), umls.index("train")
    sets, asked = torch.rand(3, 135), np.array([3, 50, 3])
    whole = UltraQuery(model, index).scores(sets, asked)
    monkeypatch.setattr(answering, "STATE_BYTES", 1)
    monkeypatch.setattr(answering, "KEPT_BYTES", 1)
    torch.testing.assert_close(UltraQuery(model, index).scores(sets, asked), whole, atol=1e-4, rtol=1e-5)


def test_scores_of_a_file_of_queries(published: Published, umls: Graph, tmp_path: Path) -> None:
    given = GivenGraph(graph=umls, split="train")
    answerer = ZeroShot(UltraQuery(published("ultraquery"), umls.index("train")), given)
    texts = ["3(10,f)", "3(10,e1)&4(f,e1)", "3(11,f)|3(e1,f)"]
    lines = [{"query": text} for text in texts]
    lines.append({"formula": "r1(s1,f)", "grounding": {"r1": "4", "s1": "20"}})
    source, output = tmp_path / "queries.jsonl", tmp_path / "scores.npz"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert score_file(answerer, source, output) == 4
    with np.load(output) as arrays:
        assert arrays["entities"].tolist() == list(umls.entity_names)
        assert [json.loads(line) for line in arrays["queries"]] == lines
        for text, row in zip([*texts, "4(20,f)"], arrays["scores"], strict=True):
            scores = {each.entity: each.score for each in reply(answerer, text).answers}
            assert np.allclose(row, [scores[name] for name in umls.entity_names], atol=1e-5)
    with pytest.raises(TaskError, match=rf"^{tmp_path} is a directory or a device"):
        score_file(answerer, source, tmp_path)
    for wrong, said in (
        ("3(10,f)&3(f,f)", "line 1: .*does not lead"),
        ("3(x,f)", "line 1: unknown entity 'x'"),
        ("3(10,f1)&3(f1,f2)", "line 1: .* asks for pairs"),
    ):
        source.write_text(json.dumps({"query": wrong}))
        with pytest.raises(TaskError, match=said):
            score_file(answerer, source, output)


def test_known_answers_and_variables(published: Published, umls: Graph) -> None:
    model = UltraQuery(published("ultraquery"), umls.index("train"))
    found = reply(ZeroShot(model, GivenGraph(graph=umls, split="train")), "3(10,e1)&4(e1,f)")
    assert found.exact == {"train": sum(each.known == ("train",) for each in found.answers)}
    assert [*found.variables] == ["e1"]
    template, groundings = to_ids(parse("3(10,f)"), umls)
    between = model.memberships(template, groundings)[0]
    assert found.variables["e1"][0].entity == umls.entity_names[between.argmax()]


def test_the_task_ranks_the_types_that_it_can_say(published: Published, tmp_path: Path) -> None:
    options = KgQaOptions(types=("1p", "2i", "pni", "2m"), train_queries=1, eval_queries=3)
    task, model = KgQa(options), published("ultraquery")
    data = task.prepare()
    check_data(model, tmp_path, task, data)
    report = task.report(model, data, "test")
    assert [*report.unsupported] == ["2m"]
    assert report.cells["1p"]["entailed"].mrr > 0.9
    assert not report.cells_of("entailed", "seen")
    assert "Means are over 3 of 4 types: ultra does not support 2m" in task.remarks(model, data, "test")[-1]
    with pytest.raises(TaskError, match="is trained with --task links"):
        task.check(model, data)


def test_other_models_are_refused(registry: Registry, umls: Graph) -> None:
    headless = peirce.build(load_spec("ultra", {"model.heads": []}), registry=registry)
    with pytest.raises(ModelFileError, match="those of 'ultra' with the head 'fuzzy'"):
        UltraQuery(headless, umls.index("train"))
