"""Why a model of a table is bad: what was planted is found, and nothing is advised that the figures do not support."""

from __future__ import annotations

import csv
import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import exit_code
from small_specs import FOLNET

from peirce.registry import Registry
from peirce_text.tabular.baseline import is_too_much, left_out_probabilities
from peirce_text.tabular.checks import Labelled
from peirce_text.tabular.classify import Classify, ClassifyOptions
from peirce_text.tabular.diagnosis import Diagnosis, Judged, doubt_labels
from peirce_text.tabular.tag import Tag, TagOptions
from peirce_training import TrainingOptions, train

SAID = {
    "billing": ("invoice", "refund", "card"),
    "login": ("password", "locked", "code"),
    "bug": ("crash", "frozen", "error"),
}
SMALL = FOLNET.replace({"model.dims.layers": 1})
OPTIONS = TrainingOptions(epochs=2, lr=1e-2, evaluate_epochs=1, device="cpu", threads=1)


def tickets(count: int) -> list[tuple[str, str]]:
    kinds = list(SAID)
    return [
        (
            f"ticket {i} on {SAID[kinds[i % 3]][i // 3 % 3]} and {SAID[kinds[i % 3]][i // 9 % 3]} <i>&",
            kinds[i % 3],
        )
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> tuple[Path, Path]:
    """The folder of a model, and the table that it was trained on, in which rows 10 and 20 have wrong labels."""
    folder = tmp_path_factory.mktemp("tickets")
    rows = [(text, "bug" if i in (10, 20) else kind) for i, (text, kind) in enumerate(tickets(150), 1)]
    with (folder / "tickets.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    task = Classify(
        ClassifyOptions(data=str(folder / "tickets.csv"), vocabulary=120, length=16, test_share=0.3)
    )
    train(SMALL, task, OPTIONS, folder / "model", registry=registry)
    return folder / "model", folder / "tickets.csv"


def test_a_training_leaves_a_page_that_needs_no_network(trained: tuple[Path, Path]) -> None:
    page = (trained[0] / "report.html").read_text(encoding="utf-8")
    titles = re.findall("<h2>(.*?)</h2>", page)
    assert [title for title in titles if title != "What the data lack"] == [
        "What to try next", "Curves", "Scores by class", "What is taken for what", "The surest errors",
        "Labels that look wrong", "Calibration", "Scores by length",
    ]  # fmt: skip
    assert "45 rows of the test split" in page
    assert "row 10: labelled bug, perhaps billing" in page
    assert "row 20: labelled bug, perhaps login" in page
    assert "&lt;i&gt;&amp;" in page
    assert "<i>" not in page
    assert "<mark" in page
    assert set(re.findall(r'(?:src|href)="([^:]*):', page)) == {"data"}
    assert not re.search(r"https?://|@import|url\(", page)


def test_rows_that_were_kept_aside_are_explained_and_another_file(
    trained: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, table = trained
    assert exit_code("explain", model, table, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["items"], found["unseen"]) == ("peirce.explain/1", 45, True)
    assert found["metrics"] == json.loads((model / "metrics.json").read_text())["test"]
    assert {each["row"] for each in found["doubtful_labels"]} == {10, 20}
    assert np.sum(found["confusion"]) == 45

    other = tmp_path / "other.csv"
    other.write_text(
        "text,label\n" + "".join(f"{text},{kind}\n" for text, kind in tickets(12)) + "a,legal\n ,bug\n"
    )
    assert exit_code("explain", model, other, "-o", tmp_path / "other.html") == 0
    said = capsys.readouterr().out
    assert f"12 rows of {other}: accuracy" in said
    assert "does not know the classes legal" in said
    assert "rows measure accuracy to about" in said
    assert "<h1>model on other.csv</h1>" in (tmp_path / "other.html").read_text()


def test_a_table_that_has_changed_since_is_measured_whole(
    trained: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model, table = trained
    content = table.read_text(encoding="utf-8")
    try:
        table.write_text(content.replace(",bug\n", ",login\n", 9), encoding="utf-8")  # which draws other rows
        assert exit_code("explain", model, table) == 0
    finally:
        table.write_text(content, encoding="utf-8")
    said = capsys.readouterr()
    assert "has changed since the training; all rows are measured" in said.err
    assert "150 rows of" in said.out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("text,label\na,legal\n", "has none of the classes legal"),
        (
            "text\na\n",
            "no column of right classes to hold the model against, only text; name it with --label",
        ),
        ("text,label\n,\n", "no row with a text and a label"),
    ],
)
def test_a_file_without_labels_is_refused(
    trained: tuple[Path, Path], tmp_path: Path, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.csv").write_text(content)
    assert exit_code("explain", trained[0], tmp_path / "x.csv") == 2
    assert said in capsys.readouterr().err
    assert exit_code("explain", trained[0], tmp_path) == 2
    assert "is a folder that the model was not trained on" in capsys.readouterr().err
    assert exit_code("explain", trained[0], tmp_path / "x.csv", "-o", "x.pdf") == 2
    assert "x.pdf must be an .html file" in capsys.readouterr().err


def test_words_with_tags_are_explained(
    tmp_path: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"tokens": ["the", animal, "sat", "in", place], "tags": ["O", "B-animal", "O", "O", "B-place"]}
        for animal in ("<dog>", "cat", "mouse", "hen") for place in ("Rome", "Bonn", "Bern", "Oslo", "Kyiv")
    ]  # fmt: skip
    table = tmp_path / "names.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = Tag(TagOptions(data=str(table), vocabulary=60, length=16, test_share=0.4, valid_share=0))
    train(SMALL, task, OPTIONS, tmp_path / "model", registry=registry)
    page = (tmp_path / "model" / "report.html").read_text()
    assert "40 words of the test split" in page
    assert "span f1" in page
    assert "<dog>" not in page
    assert exit_code("explain", tmp_path / "model", table) == 0
    assert "40 words of" in capsys.readouterr().out


def test_labels_that_contradict_the_words_are_found_and_others_are_not() -> None:
    names, labels = sorted(SAID), np.array([sorted(SAID).index(kind) for _, kind in tickets(240)])
    wrong = {5: "login", 50: "login", 76: "billing"}
    shares = left_out_probabilities([(text,) for text, _ in tickets(240)], labels, 3)
    assert len(doubt_labels(labels, shares)) == 0
    for place, name in wrong.items():
        assert labels[place] != names.index(name)
        labels[place] = names.index(name)
    assert set(doubt_labels(labels, shares)) == set(wrong)
    assert len(doubt_labels(labels[:20], shares[:20])) == 0  # too few to doubt
    small = np.where(np.arange(240) < 2, 0, 1)  # a class of two, of which nothing is known
    assert len(doubt_labels(small, np.tile([0.1, 0.9], (240, 1)))) <= 2


def test_a_bag_of_words_is_bounded() -> None:
    rows = [(text if i else "long " * 10**6,) for i, (text, _) in enumerate(tickets(50))]
    tracemalloc.start()
    left_out_probabilities(rows, np.arange(50) % 3, 3)
    assert tracemalloc.get_traced_memory()[1] < 1 << 26  # one long text takes no room for each of the others
    tracemalloc.stop()
    assert not is_too_much(rows, 3)
    assert is_too_much([("a word",)] * 20_000, 4_000)
    assert is_too_much([("a word " * 500,)] * 4_000, 50)


def judged(labels: Any, probabilities: Any, **given: Any) -> Judged:
    count = len(labels)
    rows = [Labelled(texts=(f"text {i}",), labels=("abc"[label],)) for i, label in enumerate(labels)]
    return Judged(**{
        "rows": rows, "classes": ("a", "b", "c"), "tags": False, "owners": np.arange(count),
        "words": np.zeros(count, np.int64), "labels": np.array(labels), "probabilities": np.array(probabilities, float),
        "lengths": np.full(count, 9), "longest": 100, **given,
    })  # fmt: skip


def diagnosis(found: Judged, **given: Any) -> Diagnosis:
    known = {"doubts": (), "looked_at": 0, "doubted_by": "", "baseline": None, "counts": {}, "settings": {}}
    return Diagnosis(**{"judged": found, "losses": (), "unseen": True, **known, **given})


def sharp(predicted: Any, sure: float = 0.98) -> Any:
    return np.where(np.eye(3)[predicted] > 0, sure, (1 - sure) / 2)


PLAIN, SMALL_CLASS = {"task.weights": "none"}, np.arange(900) // 400
LABELS = np.arange(20_000) % 3
"""So many that nothing is said of their number."""
ONE_LOST = np.where(LABELS == 2, 1, LABELS)


def test_a_model_without_faults_is_given_no_advice() -> None:
    predicted = np.where(np.arange(len(LABELS)) % 50 == 0, (LABELS + 1) % 3, LABELS)
    assert diagnosis(judged(LABELS, sharp(predicted)), losses=[1.0, 0.5, 0.5]).next_steps() == []


@pytest.mark.parametrize(
    ("labels", "predicted", "given", "said"),
    [
        (LABELS, LABELS, {"losses": [1.0, 0.8]}, "still fell at the end, from 1.000 to 0.800"),
        (LABELS, LABELS, {"losses": [1.0, 0.5, 0.9]}, "least at evaluation 2 of 3, 0.500, and rose to 0.900"),
        (LABELS, (LABELS + 1) % 3, {"baseline": LABELS >= 0}, "words is right on 100.0% .*, this model on 0.0%"),
        (LABELS, ONE_LOST, {}, "6,666 of 6,666 errors are b taken for c or"),
        (LABELS, ONE_LOST, {"counts": {"a": 99, "b": 99, "c": 3}}, "few training rows .* missed: c \\(3\\)"),
        (LABELS, ONE_LOST, {}, "surer than it is right: .* are 98.0% in the mean, and 66.7%"),
        (SMALL_CLASS, np.minimum(SMALL_CLASS, 1), {"settings": PLAIN}, "right in 0.0%, of large ones in 100.0%"),
    ],
)  # fmt: skip
def test_advice_follows_from_figures(labels: Any, predicted: Any, given: dict[str, Any], said: str) -> None:
    steps = diagnosis(judged(labels, sharp(predicted)), **given).next_steps()
    assert any(re.search(said, step) for step in steps), steps


def test_texts_that_are_cut_are_held_against_others() -> None:
    lengths = np.where(np.arange(len(LABELS)) % 4 == 0, 130, 20)
    predicted = np.where(lengths > 100, (LABELS + 1) % 3, LABELS)
    (step,) = [
        each
        for each in diagnosis(judged(LABELS, sharp(predicted), lengths=lengths)).next_steps()
        if "cut" in each
    ]
    assert "cut to 100 tokens are right in 0.0%, others in 100.0%. Raise --set length=160" in step
    assert judged(LABELS, sharp(predicted), lengths=lengths).by_length() == [
        (20, 20, 15000, 1.0),
        (130, 130, 5000, 0.0),
    ]


def test_calibration_is_of_all_items() -> None:
    found = judged([0, 1, 2, 0], [[0.9, 0.1, 0], [0.9, 0.1, 0], [0.3, 0.3, 0.4], [1, 0, 0]])
    bands = found.calibration()
    assert [(band[2], round(band[3], 3), band[4]) for band in bands] == [
        (1, 0.4, 1.0),
        (2, 0.9, 0.5),
        (1, 1.0, 1.0),
    ]
    assert [(each.row.number, each.label, each.other) for each in found.errors(9)] == [(0, "b", "a")]
