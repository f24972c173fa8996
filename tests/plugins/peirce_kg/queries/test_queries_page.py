from __future__ import annotations

from pathlib import Path

from code_blocks import run_page
from shared_folder import ROOT

DOCS = ROOT / "docs" / "plugins" / "kg"


def test_every_block_runs(tmp_path: Path) -> None:
    assert run_page(DOCS / "queries.md", tmp_path) == 7
    assert (tmp_path / "query.svg").is_file()
    assert (tmp_path / "triangle.png").is_file()
