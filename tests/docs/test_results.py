"""Pages with results: their tables are what the files of `benchmarks/results` give."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
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
PAGES = [path.relative_to(ROOT).as_posix() for path in tables.pages()]


def test_a_table_that_is_not_what_its_file_gives_is_noticed() -> None:
    page = (ROOT / "plugins/papers/docs/experiments.md").read_text(encoding="utf-8")
    (figure, *_) = re.findall(r"\| (\d\d\.\d) \(", page)
    assert tables.remade(page.replace(f"| {figure} (", "| 99.9 (", 1)) == tables.remade(page) == page


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_what_their_files_give(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert tables.remade(text) == text, "python benchmarks/tables.py --write makes them anew"
