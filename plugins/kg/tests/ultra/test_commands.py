"""`peirce import ultra`, `peirce ask --zero-shot` and `peirce evaluate --task links`, as a user calls them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kgqa_command import call as run
from thorough import often

import peirce
from peirce.compose import load
from peirce.errors import ModelFileError, PeirceError, TaskError
from peirce.files import read_tensors
from peirce.model import Model
from peirce_kg.commands import ultra
from peirce_kg.ultra.checkpoint import read_ultra
from peirce_kg.ultra.links import Links, LinksOptions, known_answers
from peirce_queries.answering.commands import ask
from peirce_queries.graphs.graph import load_graph

QUERY = "isa(alga,e1) & isa(e1,f)"


@pytest.fixture(scope="module")
def imported(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported") / "ultra"
    said = json.loads(run(ultra, golden / "ultraquery.safetensors", "-o", folder, "--json"))
    assert (said["parameters"], said["threshold"]) == (168_705, 0.0)
    return folder


def test_a_checkpoint_is_a_model_of_the_same_tensors(golden: Path, imported: Path, tmp_path: Path) -> None:
    tensors = read_tensors(golden / "ultra_3g.safetensors")
    # as published: the state of the optimiser stands beside that of the model
    torch.save({"model": tensors, "optimizer": {"state": {0: {"step": 1}}}}, tmp_path / "ultra.pth")
    run(ultra, tmp_path / "ultra.pth", "-o", tmp_path / "links")
    model, one = load(tmp_path / "links"), read_ultra(golden / "ultra_3g.safetensors")
    assert all(torch.equal(value, one.state_dict()[name]) for name, value in model.state_dict().items())
    assert model.spec.options == {"threshold": 0.8}
    assert sorted(map(len, tensors.values())) == sorted(map(len, model.state_dict().values()))
    with pytest.raises(ModelFileError, match=r"already has spec\.toml"):
        run(ultra, tmp_path / "ultra.pth", "-o", imported)
    with pytest.raises(ModelFileError, match="as tensors: it is a folder, where a file must be"):
        run(ultra, tmp_path, "-o", tmp_path / "more")
    for wrong, said in (
        ({"weight": torch.zeros(2, 2)}, "is not a checkpoint of ULTRA"),
        ({**tensors, "more": torch.zeros(2)}, "unknown: more"),
        ({"model": [1]}, "does not contain a state dict"),
    ):
        torch.save(wrong, tmp_path / "wrong.pth")
        with pytest.raises(ModelFileError, match=said):
            read_ultra(tmp_path / "wrong.pth")


def test_any_graph_is_asked(imported: Path, tmp_path: Path) -> None:
    graph = tmp_path / "graph.tsv"
    known_triples = load_graph("umls")
    rows = np.stack(known_triples.index("test").triples(), 1).tolist()
    names, relations = known_triples.entity_names, known_triples.relation_names
    graph.write_text("".join(f"{names[h]}\t{relations[r]}\t{names[t]}\n" for h, r, t in rows))
    asked = ("--zero-shot", "--json", "--explain", "--top", 5, "--graph")
    from_folder, from_file = (json.loads(run(ask, imported, QUERY, *asked, g)) for g in ("umls", graph))
    assert from_folder["schema"] == "peirce.ask.graph/1"
    one, other = ([each["entity"] for each in found["answers"]] for found in (from_folder, from_file))
    assert one == other
    assert from_folder["variables"]["e1"][0]["score"] > 0.9
    shown = run(ask, imported, QUERY, "--zero-shot", "--graph", "umls", "--top", 9)
    assert shown.count(" known") + shown.count(" predicted") == 9
    assert f"The graph entails {from_folder['exact']} answers." in shown
    alone = json.loads(run(ask, QUERY, "--zero-shot", "--exact", "--graph", "umls", "--json"))
    assert {each["entity"] for each in alone["answers"]} >= {
        each["entity"] for each in from_folder["answers"] if each["known"]
    }
    assert len(alone["answers"]) == from_folder["exact"]
    queries, scores = tmp_path / "queries.jsonl", tmp_path / "scores.npz"
    queries.write_text(json.dumps({"query": QUERY}))
    run(ask, imported, "--zero-shot", "--graph", "umls", "--queries", queries, "--scores", scores)
    with np.load(scores) as arrays:
        best = arrays["entities"][arrays["scores"][0].argmax()]
    assert best == from_folder["answers"][0]["entity"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ultra", QUERY, "--zero-shot"), "give it with --graph"),
        (("--zero-shot", "--graph", "umls"), "give a query, or a file of them"),
        (("--zero-shot", "--graph", "umls", "--queries", "x"), "--scores FILE; give both"),
        (("--graph", "umls", "--queries", "x", "--scores", "y"), "needs a model; `peirce kg answer`"),
        (("nowhere", QUERY, "--graph", "umls"), "there is no model nowhere"),
        (("--zero-shot", "--graph", "umls", QUERY, "--exact", "--explain"), "--exact has no"),
        (("ultra", QUERY), "--graph GRAPH"),
    ],
)
def test_what_is_missing(words: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PeirceError, match=said):
        run(ask, *words)


FIGURES = {
    "umls": (0.696, 0.896, 0.711, 0.681),
    "nations": (0.552, 0.975, 0.622, 0.483),
    "kinship": (0.202, 0.303, 0.311, 0.093),
}


@pytest.mark.parametrize("name", often(FIGURES, ["nations"]))
def test_published_figures_of_other_graphs(
    shared: Path, published: Callable[[str], Model], name: str
) -> None:
    task = Links(LinksOptions(graph=str(shared / "data" / "kg" / name)))
    found = task.metrics(published("ultra_3g"), task.prepare(), "test")
    metrics = ("mrr", "hits@10", "mrr/tail", "mrr/head")
    assert tuple(round(found[metric], 3) for metric in metrics) == FIGURES[name]


def test_heads_may_be_asked_as_tails_of_the_inverse(shared: Path, published: Callable[[str], Model]) -> None:
    one, other = (
        Links(LinksOptions(graph=str(shared / "data" / "kg" / "nations"), heads=heads))
        for heads in ("published", "inverse")
    )
    first, second = (task.metrics(published("ultra_3g"), task.prepare(), "valid") for task in (one, other))
    assert first["mrr/tail"] == second["mrr/tail"]
    assert first["mrr/head"] != second["mrr/head"]


def test_a_batch_hides_its_triples_and_knows_all_answers(tmp_path: Path) -> None:
    for split, rows in {"train": "a\tr\tb\na\tr\tc\n", "valid": "a\tr\td\n", "test": "b\tr\ta\n"}.items():
        (tmp_path / f"{split}.tsv").write_text(rows)
    task = Links(LinksOptions(graph=str(tmp_path), batch_size=1))
    graph = task.prepare()
    batches = list(task.batches(graph, "train", 0, 0))
    assert [len(batch["triples"]) for batch in batches] == [1, 1]
    assert batches[0]["labels"].sum(1).tolist() == [2, 1]  # the tails of a, and the head of one of them
    rows, answers = known_answers(graph.index("valid"), np.array([[0, 0, 3]]))
    assert (rows.tolist(), answers.tolist()) == ([0, 0, 0, 1], [1, 2, 3, 0])
    (tmp_path / "test.tsv").write_text("")
    with pytest.raises(TaskError, match="has no test triples of its own"):
        task.metrics(peirce.build("ultra", seed=0), task.prepare(), "test")
