from __future__ import annotations

from pathlib import Path

import pytest

from peirce_text.tabular.checks import Labelled, class_remarks, count_lines, spelling_pairs, text_remarks
from peirce_text.tabular.classify import Classify, ClassifyOptions


def test_a_class_that_no_split_measures_is_named() -> None:
    counts = {
        "train": {"billing": 80, "legal": 2, "login": 3},
        "valid": {"billing": 10},
        "test": {"billing": 9, "login": 1},
    }
    assert list(class_remarks(counts, "rows")) == [
        "legal has 2 rows, none in test, and is not measured",
        "login has 4 rows, 3 in train, from which little can be learned",
    ]
    assert list(count_lines(counts, "rows")) == [
        "rows of each class  train  valid  test",
        "billing                80     10     9",
        "login                   3      0     1",
        "legal                   2      0     0",
    ]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Billing", "billing", True),
        ("sign-up", "Sign up", True),
        ("biling", "billing", True),
        ("refund", "refunds", True),
        ("class 1", "class 2", False),
        ("incomplete", "complete", False),
        ("c", "c++", False),
        ("-1", "+1", False),
        ("login", "legal", False),
    ],
)
def test_two_spellings_of_a_class_are_told_from_two_classes(one: str, other: str, alike: bool) -> None:
    assert spelling_pairs({one: 3, other: 300}) == ([(one, other)] if alike else [])


def test_names_of_one_letters_difference_that_are_as_frequent_are_two() -> None:
    assert spelling_pairs({"biling": 200, "billing": 300}) == []


def test_texts_that_repeat_are_counted() -> None:
    texts = {
        "train": [(("It works",), ("good",)), (("it  works",), ("bad",)), (("no",), ("bad",))],
        "test": [(("IT WORKS",), ("good",)), (("new",), ("good",))],
    }
    rows = {
        split: [Labelled(texts=texts, labels=labels) for texts, labels in each]
        for split, each in texts.items()
    }
    assert list(text_remarks(rows)) == [
        "1 of 2 test rows have the text of a training row, so their scores are too good; keep every text once",
        "a text has two labels, such as 'it works': good and bad; decide on one",
    ]
    months = [
        Labelled(texts=("no",), labels=(label,), inputs=(month,)) for label, month in (("a", 1.0), ("b", 2.0))
    ]
    assert not [*text_remarks({"train": months})]


def test_a_training_says_before_its_first_step_what_its_table_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"the dog sat {i},Dog" for i in range(15)] + [f"a cat ran {i},cat" for i in range(15)]
    rows += ["a cat ran 3,cat"] * 9 + ["the dog sat,dog", " ,cat", "no label,", "a mouse,mouse"]
    (tmp_path / "my.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    task = Classify(ClassifyOptions(data=str(tmp_path / "my.csv"), vocabulary=60, length=5))
    task.prepare()
    said = capsys.readouterr().err
    assert "2 of 43 train rows cannot be used" in said
    assert "1 since its text is empty, 1 since it has no label" in said
    for sentence in (
        "mouse has 1 row, none in test, and is not measured",
        "the classes dog (1) and Dog (15) look like two spellings of one",
        "rows have the text of a training row",
        "are cut to task.length = 5 tokens",
    ):
        assert sentence in said
    assert len(task.checks) > 3
    assert "%) are cut" in said
