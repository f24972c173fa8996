"""`tpru/table1`: its rows as specs, and a run at the smallest sizes with the paper's figures beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from peirce.compose import build, summarise
from peirce.errors import TaskError
from peirce.registry import load_spec
from peirce_papers.tpru.entailment import COLUMNS, PAPER, SCALES, TABLE1, UNPUBLISHED, spec_of
from peirce_tpru.entailment.files import HEURISTICS
from peirce_tpru.entailment.task import Entailment
from peirce_training.experiments import ExperimentRequest

ROWS = ("GRU", "TPRU, 8 roles, BiDAF")


PRINTED = {
    "LSTM": (65_536, 1_024),
    "GRU": (49_152, 768),
    "TPRU": (40_960, 4),
    "LSTM, BiDAF": (229_376, 2_048),
    "GRU, BiDAF": (172_032, 1_536),
    "TPRU, BiDAF": (131_072, 8),
}
"""Matrices, which the paper counts: 65.5k, 49.1k, 40.1k, 230.0k, 172.4k, 131.3k; and biases, or TPRU's two offsets."""


@pytest.mark.parametrize("label", [*PAPER, *UNPUBLISHED])
def test_every_row_is_a_network_of_its_printed_size(label: str) -> None:
    unit, *rest = label.split(", ")
    name, changes = spec_of(label)
    kinds = {type(module).__name__ for module in build(load_spec(name, changes)).modules()}
    own = {"transformer": "SameText", "transformer, brackets": "Brackets", "FOLNet": "Bool"}
    assert {own.get(label, unit), "Matching"} <= kinds
    assert ("BiDAF" in kinds) == ("BiDAF" in rest)
    if label in PAPER:
        groups = summarise(load_spec(name, changes), length=2).groups
        assert groups[f"operator {unit.lower()}"] == sum(
            PRINTED[f"{unit}, BiDAF" if "BiDAF" in rest else unit]
        )


def test_rows_are_trained_and_stand_beside_the_papers(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    batch = Entailment.example_in(tmp_path / "data")["batch_size"]
    settings = {"task.batch_size": batch, "train.steps": 2, "train.threads": 1, "model.dims.unary": 8}
    request = ExperimentRequest(
        data=str(tmp_path / "data"), directory=tmp_path / "out", rows=ROWS, seeds=(0,), settings=settings
    )
    report = TABLE1.run(request, Console(quiet=True))
    assert [file.name for file in report.files] == [
        f"{name}.{ending}" for name in ("table1", "figure1") for ending in ("md", "csv", "png")
    ]
    assert "| GRU | - |" not in (tmp_path / "out" / "figure1.md").read_text()
    found = {(figure["row"], figure["column"]): figure for figure in report.figures}
    assert {row for row, _ in found} == {*ROWS, *HEURISTICS}
    for row in ROWS:
        for column, printed in zip(COLUMNS, PAPER[row], strict=True):
            figure = found[row, column]
            assert figure["paper"] == printed
            assert figure["seeds"] == (1 if column in ("valid", "easy") else 0)
    assert found["h1", "valid"]["mean"] == 20.0


@pytest.mark.parametrize(
    ("kept", "words"),
    [("train", "has no file to evaluate on"), ("validate", r"has no train\.txt.*peirce entailment generate")],
)
def test_what_is_missing_is_named_before_anything_is_trained(kept: str, words: str, tmp_path: Path) -> None:
    batch = Entailment.example_in(tmp_path)["batch_size"]
    for name in {"train", "validate", "test_easy"} - {kept}:
        (tmp_path / f"{name}.txt").unlink()
    request = ExperimentRequest(
        data=str(tmp_path), directory=tmp_path / "out", rows=("GRU",), settings={"task.batch_size": batch}
    )
    with pytest.raises(TaskError, match=words):
        TABLE1.run(request, Console(quiet=True))
    assert not list((tmp_path / "out").glob("gru*"))


@pytest.mark.parametrize(
    ("settings", "rates"),
    [({}, (3e-3, SCALES["small"].rates["transformer"])), ({"train.lr": 1e-2}, (1e-2, 1e-2))],
)
def test_rows_have_a_learning_rate_of_their_own_unless_one_is_given(
    tmp_path: Path, settings: dict[str, float], rates: tuple[float, float]
) -> None:
    batch = Entailment.example_in(tmp_path)["batch_size"]
    given = {"task.batch_size": batch, **settings}
    rows = ("GRU", "transformer")
    request = ExperimentRequest(data=str(tmp_path), directory=tmp_path, rows=rows, seeds=(0,), settings=given)
    assert tuple(cell.training.lr for cell in TABLE1.matrix_for(request).cells()) == rates
