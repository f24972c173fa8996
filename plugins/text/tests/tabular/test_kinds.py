"""Tables whose texts have numbers, scores for a query, or several labels: learned, exported, predicted and asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from served_models import CLASSIFIER
from small_specs import FOLNET

from peirce.commands.main import main
from peirce.compose import build
from peirce.errors import TaskError
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_export import Session, export
from peirce_export.questions import answer_question
from peirce_text.reading import read_rows
from peirce_text.tabular.multilabel import MultiLabel
from peirce_text.tabular.rank import Rank, RankOptions, list_batches
from peirce_text.tabular.regress import Regress
from peirce_training.settings import task_for

TASKS: tuple[Any, ...] = (Regress, Rank, MultiLabel)


def task_on(task: Any, content: str, folder: Path, name: str = "my.csv", **options: Any) -> Any:
    (folder / name).write_text(content, encoding="utf-8")
    return task(task.Options(data=str(folder / name), vocabulary=60, **options))


@pytest.mark.parametrize("task", TASKS, ids=lambda each: each.name)
def test_predictions_in_torch_onnx_and_of_a_question_agree(
    task: Any, tmp_path: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    options = task.example_in(tmp_path)
    made = task(task.Options(**options))
    data = made.prepare()
    spec = Spec.from_toml(CLASSIFIER.format(vocabulary=60))
    model = build(spec.replace(made.overrides(data)), registry=registry, seed=0)
    folder = tmp_path / "model"
    model.save(folder, made.assets(data))
    export(folder, path=folder / "model.onnx")
    found = []
    for path in (folder, folder / "model.onnx"):
        with pytest.raises(SystemExit) as end:
            main(["predict", str(path), options["test_data"], "-o", str(tmp_path / "o.jsonl")])
        assert end.value.code in (0, None)
        found.append([row.values for row in read_rows(tmp_path / "o.jsonl")])
    one, other = ([each["prediction"] for each in rows] for rows in found)
    assert one == other if task is MultiLabel else one == pytest.approx(other, abs=1e-4)
    assert len(set(map(str, one))) > 1
    said = " ".join(capsys.readouterr().out.split())
    for name, value in made.metrics(model.eval(), data, "test").items():
        assert f"{name} {value:.4f}" in said
    row = found[0][0]
    given = [f"{role}={row[made.columns[role]]}" for role in ("text", "pair") if role in made.columns]
    with Session(folder / "model.onnx") as session:
        answer = answer_question(folder / "model.onnx", session, given)
    if task is MultiLabel:
        likely = [
            name
            for name, share in zip(answer["classes"], answer["probabilities"], strict=True)
            if share > 0.5
        ]
        assert likely == row["prediction"]
    else:
        assert answer["score"] == pytest.approx(row["prediction"], abs=1e-4)


TEXTS = [f"{who}, it {does}" for who in ("dog", "cat") for does in ("sat", "ran", "slept")] * 4


@pytest.mark.parametrize(
    ("columns", "row", "name"),
    [
        ("text,label", "{0},{1}", "classify"),
        ("sentence1,sentence2,score", "{0},{0},{1}", "regress"),
        ("review,stars", "{0},{1}", "regress"),
        ("query,passage,label", "q,{0},{1}", "rank"),
        ("text,labels", '"{0}","[""a"", ""b""]"', "multilabel"),
        ("tokens,tags", "{0},{1}", "tag"),
    ],
)
def test_columns_tell_the_task(columns: str, row: str, name: str, tmp_path: Path, registry: Registry) -> None:
    rows = [row.format(text.replace(",", ""), number % 3) for number, text in enumerate(TEXTS)]
    (tmp_path / "my.csv").write_text("\n".join([columns, *rows]))
    assert task_for(str(tmp_path / "my.csv"), registry) == name


def test_numbers_are_learned_in_their_own_unit(tmp_path: Path, registry: Registry) -> None:
    rows = "".join(f'"{text}",{1000 + 10 * (i % 3)}\n' for i, text in enumerate(TEXTS))
    task = task_on(Regress, "text,price\n" + rows, tmp_path)
    data = task.prepare()
    (head,) = task.overrides(data)["model.heads"]
    assert (head["center"], head["scale"]) == pytest.approx((1010, np.std([0, 10, 20])), rel=1e-5)
    model = build(FOLNET.replace(task.overrides(data)), registry=registry, seed=0).eval()
    (batch, *_) = task.batches(data, "train", 0, 0)
    assert task.loss(model, batch).item() == pytest.approx(1, rel=0.5)  # that of the mean
    assert task.metrics(model, data, "train")["mae"] < 20


def test_pairs_and_lists_are_ranked_alike_and_queries_stay_whole(tmp_path: Path) -> None:
    lists = [
        {"query": f"q{i}", "documents": ["a dog", "a cat", "a cow"], "scores": [2, 1, 0]} for i in range(12)
    ]
    pairs = [
        {"query": each["query"], "document": text, "score": score}
        for each in lists
        for text, score in zip(each["documents"], each["scores"], strict=True)
    ]
    found = []
    for name, rows in {"lists.jsonl": lists, "pairs.jsonl": pairs}.items():
        content = "".join(json.dumps(row) + "\n" for row in rows)
        found.append(task_on(Rank, content, tmp_path, name, batch_size=7).prepare())
    for split, part in found[0].splits.items():
        assert np.array_equal(part.ids, found[1].splits[split].ids)
        assert (np.bincount(part.columns["queries"]) == 3).all()
    batches = list_batches(found[0].splits["train"].columns["queries"], 7, np.random.default_rng(0))
    assert {len(rows) for rows in batches} <= {3, 6}
    assert sorted(np.concatenate(batches)) == list(range(len(found[0].splits["train"])))
    assert [len(rows) for rows in list_batches(np.zeros(9, np.int64), 4, None)] == [4, 4, 1]


def test_the_better_text_of_a_query_must_stand_before(registry: Registry) -> None:
    task = Rank(RankOptions(data="x"))

    class Scores(torch.nn.Module):
        signature = type("None", (), {"inputs": ()})

        def forward(self) -> Mapping[str, torch.Tensor]:
            return {"classification_logits": torch.tensor([[2.0], [0.0], [5.0], [1.0]])}

    batch = {"queries": torch.tensor([0, 0, 1, 1]), "labels": torch.tensor([1.0, 0.0, 0.0, 0.0])}
    loss: Any = task.loss(Scores(), batch)  # type: ignore[arg-type]
    assert loss.item() == pytest.approx(np.log1p(np.exp(-2.0)))
    assert task.targets(batch) == {"loss": 1}


@pytest.mark.parametrize(
    ("task", "content", "words"),
    [
        (Regress, "text,score\na,1\nb,1\n", "has only the number 1"),
        (Regress, "text,score\na,many\n", "holds 'many', and must hold a number; .*--task classify"),
        (Rank, "query,text,score\nq,a,1\nq,b,1\n", "one score for all texts of each query"),
        (Rank, "query,text,score\nq,a,-1\n", "a number from 0 on"),
        (
            Rank,
            "text,score\na,1\n",
            "columns text, score is called query or question or search.*--set text=COLUMN",
        ),
        (MultiLabel, "text,labels\na,x\nb,x\n", "has 1 different labels in 2 rows, too few"),
        (MultiLabel, "text,labels\na,x 1\nb,01\n", "'01' and '1' are one number"),
    ],
)
def test_what_leaves_nothing_to_learn_is_refused(task: Any, content: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=words):
        task_on(task, content, tmp_path).prepare()
