"""The pages of the distribution: their code blocks run and leave what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_blocks import run_page

FOLDER = Path(__file__).resolve().parents[1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("page", "blocks", "leaves"),
    [
        ("docs/files.md", 2, ["theirs/test-queries.pkl", "own/test/2in.parquet"]),
        ("docs/graphs.md", 8, ["answers.jsonl"]),
        ("docs/queries.md", 10, ["query.svg", "triangle.png", "out.jsonl"]),
        ("docs/sampling.md", 3, ["queries/test/2in.parquet", "queries/test/sample.json"]),
    ],
)
def test_every_block_runs(page: str, blocks: int, leaves: list[str], tmp_path: Path) -> None:
    assert run_page(FOLDER / page, tmp_path) == blocks
    assert all((tmp_path / name).is_file() for name in leaves)
