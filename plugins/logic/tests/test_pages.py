"""The pages of the package run: detection and the ids of tokens, and relations as binary atoms."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_blocks import run_page
from shared_folder import ROOT


@pytest.mark.thorough  # minutes; tests of each part hold what the page shows
@pytest.mark.parametrize(("page", "count"), [("index", 7), ("relations", 1)])
def test_every_block_runs(page: str, count: int, tmp_path: Path) -> None:
    assert run_page(ROOT / "docs" / "plugins" / "logic" / f"{page}.md", tmp_path) == count
