"""The bench of networks over relations: equal sizes, problems made once, rounds more and fewer, edges as texts."""

from __future__ import annotations

import math
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from attrs import evolve
from rich.console import Console

import peirce
from peirce.errors import TaskError
from peirce.registry import load_spec
from peirce_papers.relations.experiments import (
    ARMS,
    EXPERIMENTS,
    MORE,
    TEXT,
    GraphRow,
    MadeNetworks,
    Rcc8Networks,
)
from peirce_relations.augmentation import add_inferred_pairs, compositions
from peirce_relations.encoding import Relations
from peirce_relations.graphs import Problem, read_graphs
from peirce_relations.task import RelationsData, RelationsOptions, RelationsTask
from peirce_training.experiments import ExperimentRequest, read_rows

TINY = {"model.dims.layers": 3, "train.steps": 2, "train.threads": 1, "task.batch_size": 8}
_, RCC8, *_ = EXPERIMENTS


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeNetworks:
    monkeypatch.setattr(Rcc8Networks, "train", (40, (2, 3), (1,)))
    monkeypatch.setattr(Rcc8Networks, "sizes", ((2, 1), (3, 2), (4, 1)))
    published = tmp_path / "published"
    published.mkdir()
    row = '{"edges":[[0,1],[1,2]],"labels":["EQ","PO"],"query":[0,2],"answer":"PO"}\n'
    for name, calculus in (("rcc8_k2_b1", row), ("interval_k2_b1", row.replace("PO", "m"))):
        (published / f"{name}.jsonl").write_text(calculus)
    request = ExperimentRequest(
        data=str(published), directory=tmp_path / "out", seeds=(0,), settings=TINY, rows=("trans", TEXT)
    )
    found = RCC8.matrix_for(request)
    assert isinstance(found, MadeNetworks)
    return found


def test_networks_of_one_size_are_tested_by_edges_paths_and_rounds(asked: MadeNetworks) -> None:
    rows = asked.run(Console(quiet=True))
    sizes = [(2, 1, 1), (3, 2, 200), (4, 1, 200)]
    expected = [("trans", *size, more) for more in MORE for size in (sizes[-1:] if more else sizes)]
    found = [(row.arm, row.k, row.b, row.problems, row.more) for row in rows]
    assert found == [*expected, *((TEXT, *size, 0) for size in sizes)]
    assert len({row.run for row in rows}) == 2
    one, other = {row.parameters for row in rows}
    assert abs(one / other - 1) < 0.01
    tables = {table.name: table for table in asked.tables(rows)}
    assert tables["accuracy"].columns == ("2", "4")
    assert tables["paths"].columns == ("2",)
    assert tables["rounds"].columns == ("-1", "0", "+1", "+2", "+4")
    assert list(tables["rounds"].figures) == ["trans"]
    folder = asked.request.directory
    assert read_rows(folder / "results.csv", GraphRow) == rows
    before = {path: path.stat().st_mtime_ns for path in (folder / "problems-rcc8").iterdir()}
    assert RCC8.matrix_for(asked.request).run(Console(quiet=True)) == rows
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert {each.answer for each in read_graphs(folder / "problems-rcc8")["test"]} <= {
        "DC", "EC", "PO", "TPP", "NTPP", "TPPI", "NTPPI", "EQ"
    }  # fmt: skip


def test_all_networks_have_one_size(asked: MadeNetworks) -> None:
    for scale in RCC8.scales:
        request = ExperimentRequest(data=asked.request.data, directory=asked.request.directory, scale=scale)
        every = RCC8.matrix_for(request)
        specs = every.specs(every.task.overrides(every.data))
        assert list(specs) == [arm.name for arm in ARMS]
        counts = {label: every.parameters(spec) for label, spec in specs.items()}
        first = counts[ARMS[0].name]
        assert all(abs(counts[arm.name] / first - 1) < 0.01 for arm in ARMS if not arm.own), counts
        assert max(counts.values()) < 1.01 * first


def test_edges_as_a_text_say_the_graph_with_nodes_and_edges_in_any_order() -> None:
    graph = Problem(nodes=3, edges=((0, 1), (1, 2)), labels=("s", "r"), query=(2, 0), answer="r")
    short = Problem(nodes=2, edges=((0, 1),), labels=("r",), query=(0, 1), answer="r")
    relations = Relations(("r", "s"), 4)  # r, s, padding, two marks, four names
    text = relations.text([graph, short])
    assert text["input_ids"].tolist() == [[3, 7, 5, 4, 5, 1, 6, 6, 0, 7], [3, 5, 6, 4, 5, 0, 6, 2, 2, 2]]
    assert text["attention_mask"].sum(1).tolist() == [10, 7]
    assert relations.words == text["input_ids"].max() + 2
    drawn = np.random.default_rng(0)
    seen = {tuple(relations.text([graph], drawn)["input_ids"][0].tolist()) for _ in range(50)}
    assert len(seen) > 20
    for ids in seen:
        first, last, edges = ids[1], ids[2], {ids[4 + i : 7 + i] for i in (0, 3)}
        (middle,) = {end for start, r, end in edges if r == 1 and start == last}
        assert edges == {(last, 1, middle), (middle, 0, first)}


def test_batches_of_like_sizes_have_the_same_problems_and_less_padding() -> None:
    drawn = np.random.default_rng(0)
    problems = [
        Problem(nodes=n, edges=((0, n - 1),), labels=("r",), query=(0, n - 1), answer="r", where=str(i))
        for i, n in enumerate(drawn.integers(2, 20, 64).tolist())
    ]
    data = RelationsData({"train": problems}, Relations(("r",)))
    nodes: dict[int, list[list[int]]] = {}
    for alike in (1, 4):
        task = RelationsTask(RelationsOptions(data="-", batch_size=8, alike=alike))
        batches = list(task.batches(data, "train", 0, 0))
        nodes[alike] = [batch["attention_mask"].sum(1).tolist() for batch in batches]
        assert sorted(n for batch in nodes[alike] for n in batch) == sorted(each.nodes for each in problems)
    one, four = (sum(max(each) for each in found) for found in nodes.values())
    assert four < one


def test_edges_of_single_nodes_lead_to_a_hub() -> None:
    problem = Problem(nodes=2, edges=((0, 1), (1, 1)), labels=("r", "s"), query=(0, 1), answer="r")
    data = RelationsData({"train": [problem]}, Relations(("r", "s")))
    task = RelationsTask(RelationsOptions(data="-", hub=True))
    (batch,) = task.batches(data, "train", 0, 0)
    assert batch["edge_ids"].tolist() == [[[2, 0, 2], [2, 2, 1], [2, 2, 2]]]
    assert batch["attention_mask"].all()


def test_further_pairs_teach_as_the_asked_one_does(tmp_path: Path) -> None:
    asked = Problem(nodes=3, edges=((0, 1), (1, 2)), labels=("r", "r"), query=(0, 2), answer="s")
    more = evolve(asked, also=((1, 0, "s"), (2, 1, "t")))
    (tmp_path / "train.jsonl").write_text(more.line() + asked.line())
    one, other = read_graphs(tmp_path)["train"]
    assert one.also == more.also
    assert not other.also
    data = RelationsData({"train": [one, other]}, Relations(("r", "s", "t")))
    spec = load_spec("edge-transformer").replace(RelationsTask(RelationsOptions(data="-")).overrides(data))
    model = peirce.build(spec, seed=0).eval()
    losses = []
    for weight, even in ((0.0, 1.0), (0.5, 0.0), (0.5, 2.0)):
        task = RelationsTask(RelationsOptions(data="-", also=weight, undecided=even, hub=True))
        (batch,) = task.batches(data, "train", 0, 0)
        losses.append(task.loss(model, batch))
    scores = model(**{name: batch[name] for name in ("edge_ids", "attention_mask")})["relation_logits"]
    row = 0 if batch["also"][0].amax() > 0 else 1
    assert {tuple(pair) for pair in (batch["also"][row] >= 0).nonzero().tolist()} == {(1, 0), (2, 1)}
    chances = scores[row].log_softmax(-1)
    further = -(chances[1, 0, 1] + chances[2, 1, 2]) / 2
    torch.testing.assert_close(losses[1] - losses[0], 0.5 * further / 2)  # of two problems
    divergence, said = -scores.log_softmax(-1).mean(-1) - math.log(3), {(0, 1), (1, 2), (0, 2)}
    undecided = [
        torch.stack([divergence[i, x, y] for x, y in permutations(range(4), 2) if (x, y) not in known]).mean()
        for i, known in ((row, said | {(1, 0), (2, 1)}), (1 - row, said))
    ]
    torch.testing.assert_close(losses[2] - losses[1], undecided[0] + undecided[1], rtol=0.01, atol=1e-6)
    for wrong, said in (("[[0,1]]", "two nodes and their relation"), ('[[0,9,"r"]]', "node 9 is asked")):
        (tmp_path / "train.jsonl").write_text(asked.line().replace("}", f',"also":{wrong}}}'))
        with pytest.raises(TaskError, match=said):
            read_graphs(tmp_path)


def test_what_two_edges_show_gives_longer_problems_further_pairs(tmp_path: Path) -> None:
    def path(labels: str, answer: str) -> Problem:
        end, edges = len(labels), tuple(pairwise(range(len(labels) + 1)))
        return Problem(nodes=end + 1, edges=edges, labels=(*labels,), query=(0, end), answer=answer)

    shown = [path(each[:2], each[2]) for each in ("abc", "cbd", "bac", "bad", "bce", "acd")]
    assert compositions(shown) == {("a", "b"): "c", ("c", "b"): "d", ("b", "c"): "e", ("a", "c"): "d"}
    known = {(0, 1): "a", (1, 2): "b", (2, 3): "b", (0, 2): "c", (0, 3): "d"}
    whole = add_inferred_pairs(path("abb", "d"), compositions(shown))
    assert {(x, y): name for x, y, name in whole.also} == known
    # both ways give another relation, and the answer stands
    other = add_inferred_pairs(path("abc", "x"), compositions(shown))
    assert {(x, y): name for x, y, name in other.also}[0, 3] == "x"
    (tmp_path / "train.jsonl").write_text("".join(each.line() for each in [*shown, path("abb", "d")]))
    (tmp_path / "test.jsonl").write_text(path("abb", "d").line())
    data = RelationsTask(RelationsOptions(data=str(tmp_path), taught=True)).prepare()
    assert [len(each.also) for each in data.of("train")] == [3, 3, 3, 3, 3, 3, 5]
    assert not any(each.also for each in data.of("test"))
    half = RelationsTask(RelationsOptions(data=str(tmp_path), taught=True, valid=0.6)).prepare().splits
    composed = compositions(half["train"])
    assert 0 < len(composed) < 4
    assert half["train"] == [add_inferred_pairs(evolve(each, also=()), composed) for each in half["train"]]
    assert not any(each.also for each in half["valid"])
