"""The page of the distribution does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_blocks import run_page

PAGE = Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.thorough
def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    assert run_page(PAGE, tmp_path) >= 4
