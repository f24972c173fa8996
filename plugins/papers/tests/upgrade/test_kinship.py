"""Kinship from more facts: people's names, and the table at tiny sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import peirce
from peirce.errors import TaskError
from peirce_papers.upgrade.kinship import KINSHIP, SHUFFLED, TOLD, KinshipRow
from peirce_papers.upgrade.kinship_task import Kinship
from peirce_papers.upgrade.kinship_words import ASKED, KINDS, NAMES, SAME, UNKNOWN
from peirce_papers.upgrade.networks import SCRATCH
from peirce_text.clutrr.task import Clutrr, ClutrrOptions
from peirce_text.text.tokenizer import Tokenizer
from peirce_training.experiments import RESULTS, ExperimentRequest, read_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stories of two and three facts, and of four."""
    folder = tmp_path_factory.mktemp("stories")
    Clutrr.example_in(folder)
    return folder


def test_people_have_names_that_differ_from_training_to_tests(base: Path, folder: Path) -> None:
    options = ClutrrOptions(folder=str(folder), tokenizer=str(base / "assets"), people="roles")
    task, placed = Kinship(options), Clutrr(options)
    data = task.prepare()
    tokenizer, rows = data.tokenizer, np.arange(4)
    first = tokenizer.vocabulary
    asked, *others = (
        [*np.ravel([tokenizer.pieces(name) for name in names.split()])] for names in (ASKED, *NAMES)
    )
    for split, known in (("train", others[0]), ("test", others[1])):
        before = placed.batch(data, split, rows, None)["input_ids"].numpy()
        drawn = [
            task.batch(data, split, rows, rng)["input_ids"].numpy()
            for rng in (None, np.random.default_rng(5))
        ]
        for ids in drawn:
            np.testing.assert_array_equal(ids[before < first], before[before < first])
            assert set(ids[before >= first + 2]) <= set(known)
            assert [*ids[before == first]] == [asked[0]] * (before == first).sum()
            for one, other in zip(before, ids, strict=True):
                people = {(int(a), int(b)) for a, b in zip(one, other, strict=True) if a >= first}
                assert len(people) == len({a for a, _ in people}) == len({b for _, b in people}) > 2
        assert (drawn[0] != drawn[1]).any()
    assert task.overrides(data)["model.input.vocabulary"] == first


def test_facts_are_told_between_all_tokens_of_their_people(base: Path, folder: Path) -> None:
    kinds = KINDS.split()
    options = ClutrrOptions(
        folder=str(folder), tokenizer=str(base / "assets"), people="roles", text="facts", first="query"
    )
    task = Kinship(options)
    data = task.prepare()
    batch = task.batch(data, "train", np.arange(6), np.random.default_rng(0))
    words = {data.tokenizer.pieces(word)[0]: word for word in f"{ASKED} {NAMES[0]} {KINDS} .".split()}
    seen = set()
    for ids, edges in zip(batch["input_ids"], batch["edge_ids"], strict=True):
        text = [words.get(int(number), "") for number in ids]
        people = {*ASKED.split(), *NAMES[0].split()}
        facts = {(text[i - 1], text[i + 1]): each for i, each in enumerate(text) if each in kinds}
        for x, one in enumerate(text):
            for y, other in enumerate(text):
                if (kind := facts.get((one, other))) is not None:
                    wanted = kinds.index(kind)
                elif (kind := facts.get((other, one))) is not None:
                    wanted = kinds.index(kind) + len(kinds)
                else:
                    wanted = SAME if one == other and one in people else UNKNOWN
                assert edges[x, y] == wanted, (one, other)
                seen.add(wanted)
    assert len(seen) >= 4


def test_a_tokenizer_that_splits_names_is_refused(folder: Path, tmp_path: Path) -> None:
    letters = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    (tmp_path / "vocab.txt").write_text("\n".join([*letters, *(f"##{each}" for each in letters[5:])]))
    content = Tokenizer.load(tmp_path / "vocab.txt").saved_content(128, "longest")
    (tmp_path / "tokenizer.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    task = Kinship(ClutrrOptions(folder=str(folder), tokenizer=str(tmp_path), people="roles"))
    with pytest.raises(TaskError, match="several tokens"):
        task.batch(task.prepare(), "train", np.arange(2), None)


def test_the_table_with_its_controls(base: Path, folder: Path, tmp_path: Path) -> None:
    settings = {"train.steps": 2, "task.batch_size": 4, "task.folder": str(folder), "train.threads": 1}
    settings["task.train_hops"] = (2, 3)
    labels = (
        "fine-tuned",
        TOLD,
        SHUFFLED,
        "relation attention, told the facts",
        "another attention",
        "adapters",
        SCRATCH,
    )
    request = ExperimentRequest(
        data=str(base), directory=tmp_path, rows=tuple(labels), seeds=(0,), settings=settings
    )
    report = KINSHIP.run(request, Console(quiet=True))
    assert {figure["row"] for figure in report.figures} == {*labels, "commonest relation"}
    rows = read_rows(tmp_path / RESULTS, KinshipRow)
    assert [(row.arm, row.hops, row.stories) for row in rows] == [(label, 4, 18) for label in labels]
    parameters = {row.arm: row.parameters for row in rows}
    assert len({row.run for row in rows}) == len(labels)
    assert parameters[SHUFFLED] == parameters[TOLD] > parameters["fine-tuned"]
    new = peirce.load(tmp_path / rows[1].run).state_dict()
    assert any("relations" in name and float(value.abs().max()) > 0 for name, value in new.items())
