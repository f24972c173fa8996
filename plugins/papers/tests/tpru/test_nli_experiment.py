"""`tpru/table2` and `tpru/table3`: their rows as specs, and a run of both at the smallest sizes in one folder."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from senteval_files import write_senteval

from peirce.compose import build
from peirce.registry import load_spec
from peirce_papers.tpru.nli import COLUMNS, PAPER2, PAPER3, TABLE2, TABLE3, spec_of
from peirce_training.experiments import ExperimentRequest

ROWS = ("TPRU, 16 roles",)


def test_every_row_is_a_network_of_its_size() -> None:
    for label in PAPER2:
        name, changes = spec_of(label, 4)
        model = build(load_spec(name, {**changes, "model.input.vocabulary": 5}))
        kinds = {type(module).__name__ for module in model.modules()}
        assert label.partition(",")[0] in kinds
        assert ("BiDAF" in kinds) == ("BiDAF" in label)
        assert model.plan.dims.unary == (16 if label.endswith("dim 1024") else 8)
    assert {*PAPER3} < {*PAPER2}
    assert {*TABLE2.rows, *TABLE2.more} == {*PAPER2}
    assert {*TABLE3.rows, *TABLE3.more} == {*PAPER3}


def test_both_tables_share_what_is_trained(encoder: str, tmp_path: Path) -> None:
    (data := tmp_path / "data").mkdir()
    write_senteval(data)
    own = {"task.vectors": encoder, "task.length": 16, "model.dims.unary": 8}
    settings = {**own, "train.epochs": 1, "train.threads": 1}
    request = ExperimentRequest(
        data=str(data), directory=tmp_path / "out", rows=ROWS, seeds=(0,), settings=settings, command="here"
    )
    second = TABLE2.run(request, Console(quiet=True))
    assert [file.name for file in second.files] == ["table2.md", "table2.csv", "table2.png"]
    trained = {path.parent: path.read_bytes() for path in (tmp_path / "out").glob("*/weights.safetensors")}
    origins = {folder: (folder / "origin.json").stat().st_mtime_ns for folder in trained}
    third = TABLE3.run(request, Console(quiet=True))
    assert len(trained) == len(ROWS)
    for folder, weights in trained.items():
        assert (folder / "weights.safetensors").read_bytes() == weights
        assert (folder / "origin.json").stat().st_mtime_ns == origins[folder]
    found = {(figure["row"], figure["column"]): figure for figure in [*second.figures, *third.figures]}
    for row in ROWS:
        assert found[row, "dev"]["paper"] == PAPER2[row][0]
        assert found[row, "test"]["seeds"] == 1
        assert found[row, "dev, mismatched"]["seeds"] == 0
        for column, printed in zip(COLUMNS, PAPER3[row], strict=True):
            assert found[row, column]["paper"] == printed
            assert found[row, column]["seeds"] == (0 if column == "SST-5" else 1)
        assert found[row, "MRPC"]["mean"] == 100
