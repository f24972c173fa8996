from __future__ import annotations

from pathlib import Path

from code_blocks import run_page
from shared_folder import ROOT

DOCS = ROOT / "docs" / "plugins" / "kg"


def test_every_block_runs(tmp_path: Path) -> None:
    assert run_page(DOCS / "sampling.md", tmp_path) == 2
    assert sorted(path.name for path in (tmp_path / "queries" / "test").iterdir()) == [
        "2in.parquet",
        "2p.parquet",
        "pni.parquet",
        "sample.json",
    ]
