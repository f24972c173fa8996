"""The pages of `docs/plugins/kg`: their code blocks run and leave what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_blocks import run_page
from shared_folder import ROOT

DOCS = ROOT / "docs"
KG = "plugins/kg"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("page", "blocks", "leaves"),
    [
        (f"{KG}/encoders.md", 1, ["distmult.safetensors"]),
        (f"{KG}/files.md", 2, ["theirs/test-queries.pkl", "own/test/2in.parquet"]),
        (f"{KG}/graphs.md", 8, ["answers.jsonl"]),
        (f"{KG}/queries.md", 9, ["query.svg", "triangle.png", "out.jsonl"]),
        (f"{KG}/sampling.md", 3, ["queries/test/2in.parquet", "queries/test/sample.json"]),
        (f"{KG}/systems.md", 1, []),
        (f"{KG}/zero-shot.md", 1, []),
        ("results/experiments.md", 1, []),
    ],
)
def test_every_block_runs(page: str, blocks: int, leaves: list[str], tmp_path: Path) -> None:
    assert run_page(DOCS / page, tmp_path) == blocks
    assert all((tmp_path / name).is_file() for name in leaves)
