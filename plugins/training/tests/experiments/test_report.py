from __future__ import annotations

import csv
from pathlib import Path

import pytest
from attrs import evolve

from peirce_training.experiments import Figure, FigureTable

TABLE = FigureTable(
    name="small",
    title="A table",
    about="two rows.",
    columns=("one", "two"),
    figures={
        "A": [
            Figure(row="A", column="one", values=(1.0, 2.0), paper=3.0),
            Figure(row="A", column="two", values=(1234.5,), types="1 of 2 types"),
        ],
        "B": [Figure(row="B", column="one", paper=4.0), Figure(row="B", column="two", values=(0.25,))],
    },
    facts=["In kilograms."],
    sources=["A: 5 parameters"],
    published="the paper",
)


def test_markdown() -> None:
    assert TABLE.markdown() == (
        "# A table\n\ntwo rows.\n\n| | one | two |\n|---|---:|---:|\n"
        "| A | 1.5 (1.0 to 2.0) [3.0] | 1,234, 1 of 2 types |\n| B | - [4.0] | 0.2 |\n"
        "\nIn kilograms.\n\n* A: 5 parameters\n"
    )
    assert "| A | 2 (1 to 2) [3] | 1,234, 1 of 2 types |" in evolve(TABLE, digits=0).markdown()


def test_files_and_figures_as_json(tmp_path: Path) -> None:
    report = TABLE.write(tmp_path / "new")
    assert [path.name for path in report.files] == ["small.md", "small.csv", "small.png"]
    with report.files[1].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0].values()) == ["A", "one", "2", "1.5", "1.0", "2.0", "3.0", ""]
    assert report.figures[2] == {
        "row": "B", "column": "one", "seeds": 0, "mean": None, "low": None, "high": None, "paper": 4.0, "types": ""
    }  # fmt: skip
    assert report.facts == ["In kilograms."]


@pytest.mark.parametrize("columns", [("one", "two"), ("2", "10")])
def test_pictures_have_bars_or_lines(columns: tuple[str, ...]) -> None:
    figures = {
        label: [evolve(figure, column=column) for column, figure in zip(columns, row, strict=True)]
        for label, row in TABLE.figures.items()
    }
    table = evolve(TABLE, columns=columns, figures=figures)
    assert table.picture().startswith(b"\x89PNG")
    assert table.picture() != evolve(table, logarithmic=True).picture()
    if columns[0].isdecimal():
        shaded = evolve(table, shaded=(columns[:1], "trained on"))
        assert len({table.picture(), shaded.picture(), evolve(table, constant=("B",)).picture()}) == 3


def test_a_picture_of_some_columns() -> None:
    alone = {label: row[1:] for label, row in TABLE.figures.items()}
    some = evolve(TABLE, drawn=("two",))
    assert some.picture() == evolve(TABLE, columns=("two",), figures=alone).picture() != TABLE.picture()
    assert some.markdown() == TABLE.markdown()
