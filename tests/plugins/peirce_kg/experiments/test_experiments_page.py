from __future__ import annotations

from pathlib import Path

from code_blocks import run_page
from shared_folder import ROOT

PAGE = ROOT / "docs" / "results" / "experiments.md"


def test_every_block_runs(tmp_path: Path) -> None:
    assert run_page(PAGE, tmp_path) == 1
