from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import attrs
import numpy as np
import pytest
import torch
from kinship import row, write, write_folder
from small_specs import FOLNET, TRANSFORMER

from peirce.compose import build
from peirce.errors import TaskError
from peirce.model import Model
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_text.clutrr.stories import read_story
from peirce_text.clutrr.task import Clutrr, ClutrrOptions, Encoder
from peirce_text.reading import read_rows
from peirce_text.tasks import TextClassData
from peirce_text.text.tokenizer import Tokenizer
from peirce_training import TrainingOptions, train


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("clutrr") / "data")


def _task(folder: Path, **options: object) -> Clutrr:
    return Clutrr(ClutrrOptions(folder=str(folder), vocabulary=120, **options))  # type: ignore[arg-type]


def _model(spec: Spec, task: Clutrr, data: TextClassData, registry: Registry) -> Model:
    changes = {"model.regularisation.dropout": 0.0, "model.regularisation.init_std": 0.2}
    return build(spec.replace({**task.overrides(data), **changes}), registry=registry)


def test_the_pair_of_texts_is_the_papers(tmp_path: Path) -> None:
    (told,) = read_rows(write(tmp_path / "1.2_test.csv", [row()]))
    story = read_story(told, "story")
    tokenizer = Tokenizer.train([s for s in story.segments if isinstance(s, str)] * 2 + ["Ann Lil Nick"] * 2)
    text = "Ann's daughter, Lil, asked her mom to read. Nick's sister Lil helped him."
    pair = tokenizer.encode(text, "Ann Nick", length=128)
    words = Encoder(tokenizer, ClutrrOptions()).encode(story)
    assert tuple(words.ids) == pair.ids
    assert words.first == pair.types.count(0)
    assert [tokenizer.token(words.ids[i]) for i in words.query] == ["ann", "nick"]
    assert words.cut == 0
    first = Encoder(tokenizer, ClutrrOptions(first="query")).encode(story)
    swapped = tokenizer.encode("Ann Nick", text, length=128)
    assert (tuple(first.ids), first.first) == (swapped.ids, swapped.types.count(0))
    assert [tokenizer.token(first.ids[i]) for i in first.query] == ["ann", "nick"]


def test_a_long_story_loses_its_end_and_never_the_question(tmp_path: Path) -> None:
    (told,) = read_rows(write(tmp_path / "1.2_test.csv", [row()]))
    story = read_story(told, "story")
    tokenizer = Tokenizer.train([s for s in story.segments if isinstance(s, str)] * 2)
    tokens = ClutrrOptions(people="tokens", entities=5)
    whole = Encoder(tokenizer, tokens).encode(story)
    for first in ("story", "query"):
        short = Encoder(tokenizer, attrs.evolve(tokens, first=first, length=12)).encode(story)
        assert len(short.ids) == 12
        assert short.cut == len(whole.ids) - 12
        assert list(short.ids[list(short.query)]) == [tokenizer.vocabulary, tokenizer.vocabulary + 2]


@pytest.mark.parametrize("people", ["tokens", "roles"])
def test_people_get_tokens_drawn_anew_in_each_epoch(people: str, folder: Path) -> None:
    """With roles, those asked for have the first two tokens."""
    task = _task(folder, people=people, entities=7, batch_size=100, valid=0.0)
    data = task.prepare()
    words = data.tokenizer.vocabulary
    assert task.overrides(data)["model.input.vocabulary"] == words + 7
    seen, sets = set(), []
    for epoch in range(6):
        (batch,) = task.batches(data, "train", 0, epoch)
        named = [ids[ids >= words].tolist() for ids in batch["input_ids"]]
        for own, ids, at in zip(named, batch["input_ids"], batch["query"], strict=True):
            # the story's first person and its last are asked for
            *told, one, other = own
            assert (told[0], told[-1]) == (one, other) == tuple(ids[at].tolist())
            assert people == "tokens" or (one, other) == (words, words + 1)
            seen |= set(own)
        sets.append([tuple(own) for own in named])
        assert {len(set(own)) for own in named} == {3, 4}
    assert seen == set(range(words, words + 7))
    assert all(a != b for a, b in pairwise(sets))
    assert torch.equal(*(next(iter(task.batches(data, "test", s, 0)))["input_ids"] for s in (0, 1)))


@pytest.mark.parametrize("head", ["classification", "relation"])
def test_the_loss_and_the_metrics_by_hand(head: str, folder: Path, registry: Registry) -> None:
    task = _task(folder, people="tokens", head=head, batch_size=3)
    data = task.prepare()
    model = _model(FOLNET, task, data, registry).eval()
    right, losses = {2: [], 4: []}, []  # type: ignore[var-annotated]
    with torch.no_grad():
        part = data.splits["test"]
        for i, (wanted, hops) in enumerate(zip(part.labels, part.notes, strict=True)):
            one = part.batch(np.array([i]))
            inputs = {name: one[name] for name in ("input_ids", "token_type_ids")}
            scores = model(**inputs)[f"{head}_logits"][0]
            scores = scores if head == "classification" else scores[tuple(one["query"][0])]
            losses.append(float(scores.logsumexp(0) - scores[wanted]))
            right[int(hops)].append(int(scores.argmax()) == int(wanted))
    two, four = np.mean(right[2]), np.mean(right[4])
    wanted = {"accuracy": np.mean([*right[2], *right[4]]), "mean_accuracy": (two + four) / 2}
    wanted |= {"accuracy_2": two, "accuracy_4": four}
    assert task.metrics(model, data, "test") == pytest.approx(wanted)
    batches = list(task.batches(data, "test", 0, 0))
    total = sum(task.loss(model, batch).item() * len(batch["labels"]) for batch in batches)
    assert total == pytest.approx(sum(losses), rel=1e-4)


def test_what_cannot_be(folder: Path, tmp_path: Path, registry: Registry) -> None:
    with pytest.raises(TaskError, match=r"4 people, and task\.entities is 3"):
        _task(folder, people="tokens", entities=3).prepare()
    with pytest.raises(TaskError, match=r"task\.train_hops: no story of 7 hops"):
        _task(folder, train_hops=(2, 7)).prepare()
    task = _task(folder, valid=0.0)
    with pytest.raises(TaskError, match=r"no 'valid' split here, only train, test; raise task\.valid"):
        next(iter(task.batches(task.prepare(), "valid", 0, 0)))
    relation = _task(folder, head="relation")
    with pytest.raises(TaskError, match="does not suit the task 'clutrr'"):
        train(TRANSFORMER, relation, TrainingOptions(steps=1), tmp_path / "out", registry=registry)
