from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from peirce.errors import TaskError
from peirce_text.reading import Row
from peirce_text.tabular.classify import Classify
from peirce_text.tabular.columns import (
    Roles,
    class_name,
    column,
    sort_classes,
    split_rows,
    usual_column,
    usual_pair,
)
from peirce_text.tabular.tag import Tag


def row(*columns: str) -> Row:
    return Row("my.csv", 1, dict.fromkeys(columns, "x"))


@pytest.mark.parametrize(
    ("columns", "text", "label"),
    [
        (("id", "Text", "Label"), "Text", "Label"),
        (("words of mine", "label"), "words of mine", "label"),  # of two columns, the other one
        (("review", "stars"), "review", "stars"),
        (("id", "text"), "text", ""),  # a number of the row is no class
        (("a", "b"), "", ""),
        (("a", "b", "label"), "", "label"),
    ],
)
def test_columns_are_known_by_their_names(columns: tuple[str, ...], text: str, label: str) -> None:
    assert (usual_column(columns, "text"), usual_column(columns, "label")) == (text, label)


def test_a_task_is_plain_from_its_columns() -> None:
    pair = ("premise", "hypothesis", "gold_label")
    assert usual_pair(pair) == pair[:2]
    assert Classify.fits(row(*pair).values)
    assert Classify.fits({"text": "x", "label": 1})
    assert not Classify.fits({"text": ["x"], "label": 1})
    assert not Classify.fits({"tokens": ["x"], "tags": ["O"]})
    assert Tag.fits({"tokens": ["x"], "ner_tags": ["O"]})


def test_a_column_that_no_name_tells_is_asked_for() -> None:
    with pytest.raises(TaskError, match=r"a, b, c is called text or sentence or review.*--set text=COLUMN"):
        column(row("a", "b", "c"), "text", "")
    with pytest.raises(TaskError, match=r"unknown column 'txt'.*Did you mean 'text'"):
        column(row("text", "label"), "text", "txt")


def test_predictions_read_the_columns_of_the_training() -> None:
    known = {"text": "body", "pair": "title", "label": "kind"}
    assert Roles.of(row("body", "title"), known, tags=False) == Roles(("body", "title"), "")
    assert Roles.of(row("body", "title", "kind"), known, tags=False).label == "kind"
    assert Roles.of(row("sentence1", "sentence2"), {}, tags=False).texts == ("sentence1", "sentence2")
    assert Roles.of(row("words", "x"), {"tokens": "tokens"}, tags=True) == Roles(("words",), "")
    for columns, missing, option in (
        (("body",), "title", "--second"), (("title", "text"), "body", "--text"), (("x", "title"), "body", "--text"),
    ):  # fmt: skip
        with pytest.raises(
            TaskError, match=rf"unknown column '{missing}'.*was trained on it.*{option} COLUMN"
        ):
            Roles.of(row(*columns), known, tags=False)


def test_columns_that_are_not_those_of_the_training_are_said() -> None:
    known = {"text": "subject", "label": "kind"}
    assert Roles.of(row("subject", "text"), known, tags=False).untrained(known) == ""
    other = Roles.of(row("id", "Text", "kind"), known, tags=False)
    assert other == Roles(("Text",), "kind")
    assert other.untrained(known) == "texts from column 'Text'; the model was trained on 'subject'"
    assert other.untrained({}) == "texts from column 'Text'"
    with pytest.raises(TaskError, match=r"unknown column 'subject'.*--text COLUMN"):
        Roles.of(row("id", "headline", "kind"), known, tags=False)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "1"),
        (1.0, "1"),
        (0.5, "0.5"),
        (" a  b ", "a b"),
        (True, "True"),
        (float("nan"), None),
        ("NaN", None),
    ],
)
def test_values_name_classes(value: Any, name: str | None) -> None:
    assert class_name(value, "here") == name
    with pytest.raises(TaskError, match="the name or the number of a class"):
        class_name({"a": value}, "here")


def test_classes_that_are_numbers_stand_in_their_order() -> None:
    assert sort_classes(["10", "9", "b", "a", "9"]) == ("9", "10", "a", "b")


def test_a_table_is_divided_by_shares_of_every_class() -> None:
    classes = np.array([0] * 90 + [1] * 10)
    found = split_rows(100, {"valid": 0.2, "test": 0.1}, 3, classes)
    assert {split: len(rows) for split, rows in found.items()} == {"train": 70, "valid": 20, "test": 10}
    assert sorted(np.concatenate([*found.values()])) == list(range(100))
    assert [int(classes[found[split]].sum()) for split in ("valid", "test")] == [2, 1]
    rare = np.array([0] * 18 + [1, 1])
    for seed in range(20):  # a class that is hardly there is trained
        found = split_rows(20, {"valid": 0.4, "test": 0.4}, seed, rare)
        assert set(rare[found["train"]]) == {0, 1}
        assert sorted(np.concatenate([*found.values()])) == list(range(20))
    again, other = (split_rows(100, {"valid": 0.2}, seed)["valid"] for seed in (3, 4))
    assert not np.array_equal(again, other)
    with pytest.raises(TaskError, match="2 rows are too few"):
        split_rows(2, {"valid": 0.1, "test": 0.1}, 0)
