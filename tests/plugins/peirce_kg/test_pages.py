"""The pages of `docs/plugins/kg`: their code blocks run and leave what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_blocks import run_page
from peirce_kg.engine.template import Template
from peirce_kg.queries.types import load_types
from shared_folder import ROOT

DOCS = ROOT / "docs"
KG = "plugins/kg"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("page", "blocks", "leaves"),
    [
        (f"{KG}/encoders.md", 1, ["distmult.safetensors"]),
        (f"{KG}/graphs.md", 7, ["answers.jsonl"]),
        (f"{KG}/queries.md", 7, ["query.svg", "triangle.png"]),
        (f"{KG}/sampling.md", 2, ["queries/test/2in.parquet", "queries/test/sample.json"]),
        (f"{KG}/systems.md", 1, []),
        ("results/experiments.md", 1, []),
    ],
)
def test_every_block_runs(page: str, blocks: int, leaves: list[str], tmp_path: Path) -> None:
    assert run_page(DOCS / page, tmp_path) == blocks
    assert all((tmp_path / name).is_file() for name in leaves)


def test_the_types_with_another_answer_under_set_complement_are_named() -> None:
    """They are those with a negated atom between two variables."""
    text = (DOCS / KG / "graphs.md").read_text(encoding="utf-8")
    for name, kind in load_types().items():
        if any(len(slot.variables) == 2 for slot in Template.of(kind.query).negated):
            assert f"`{name}`" in text
