"""The pages of the distribution: their code blocks run."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_blocks import run_page

FOLDER = Path(__file__).resolve().parents[1]


@pytest.mark.thorough
@pytest.mark.parametrize(("page", "blocks"), [("docs/experiments.md", 1)])
def test_every_block_runs(page: str, blocks: int, tmp_path: Path) -> None:
    assert run_page(FOLDER / page, tmp_path) == blocks
