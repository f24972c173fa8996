"""The page of documentation does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_blocks import run_page
from shared_folder import ROOT

DOCS = ROOT / "docs"


@pytest.mark.thorough
def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    assert run_page(DOCS / "plugins" / "hf" / "index.md", tmp_path) >= 3
