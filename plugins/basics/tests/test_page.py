"""The page of upgrades does what it says."""

from __future__ import annotations

from pathlib import Path

from code_blocks import run_page

PAGE = Path(__file__).resolve().parents[1] / "docs/upgrade.md"


def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    assert run_page(PAGE, tmp_path) >= 3
