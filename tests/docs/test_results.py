"""Pages with results: their tables are what the files of `benchmarks/results` give."""

from __future__ import annotations

import csv
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from shared_folder import ROOT


def _tables() -> ModuleType:
    found = spec_from_file_location("tables", ROOT / "benchmarks" / "tables.py")
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    sys.modules["tables"] = module
    found.loader.exec_module(module)
    return module


tables = _tables()
PAGES = [path.relative_to(tables.DOCS).as_posix() for path in tables.pages()]
KINSHIP, RELATIVE = "tega-kinship.csv", "transformer-relative"


def test_a_run_of_a_changed_tree_or_of_another_spec_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row for row in tables.read(KINSHIP) if row["spec"] in ("tega", RELATIVE)]
    (first, second, third) = sorted({row["seed"] for row in rows if row["filtering"] == "graphs"})[:3]
    today = tables.digests("kinship")
    changed = [
        row
        | {"commit": "0123abc" + "+" * ((row["spec"], row["seed"]) == ("tega", first))}
        | {"spec_digest": "older" if (row["spec"], row["seed"]) == (RELATIVE, second) else today[row["spec"]]}
        for row in rows
        if row["seed"] in (first, second, third) and row["filtering"] == "graphs"
    ]
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    with (tmp_path / "marks.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(changed)
    made = tables.made("ranking marks.csv experiment=tega/table7 filtering=graphs")
    assert f"| TEGA | {first}†, {second}, {third} |" in made
    assert f"| Trans.+Relative PE | {first}, {third} |" in made
    assert f"| Trans.+Relative PE | {second}‡ |" in made
    assert made.endswith("older record that does not tell its spec.")
    published = tables.made("ranking marks.csv experiment=tega/table7")
    assert f"| TEGA | {first}†§, {second}§, {third}§ | - | - | - | - |" in published


def test_a_table_that_is_not_what_its_file_gives_is_noticed() -> None:
    page = (tables.DOCS / "results/experiments.md").read_text(encoding="utf-8")
    (figure, *_) = re.findall(r"\| (\d\d\.\d) \(", page)
    assert tables.remade(page.replace(f"| {figure} (", "| 99.9 (", 1)) == tables.remade(page) == page


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_what_their_files_give(page: str) -> None:
    text = (tables.DOCS / page).read_text(encoding="utf-8")
    assert tables.remade(text) == text, "python benchmarks/tables.py --write makes them anew"
