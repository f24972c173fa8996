from __future__ import annotations

import re
from pathlib import Path

from code_blocks import run_page
from peirce.registry import ready_specs
from shared_folder import ROOT

DOCS = ROOT / "docs" / "plugins" / "kg"
PAGE = DOCS / "encoders.md"


def test_every_block_runs(tmp_path: Path) -> None:
    assert run_page(PAGE, tmp_path) == 1
    assert (tmp_path / "distmult.safetensors").is_file()


def test_the_table_names_ready_specs() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE.read_text(encoding="utf-8"), re.M)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    families = ("transformer-", "tega", "sqe-", "folnet-queries")
    assert {name for name in ready_specs() if name.startswith(families)} <= named
