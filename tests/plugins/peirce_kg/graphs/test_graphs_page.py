from __future__ import annotations

from pathlib import Path

from code_blocks import run_page
from peirce_kg.engine.template import Template
from peirce_kg.queries.types import load_types
from shared_folder import ROOT

PAGE = ROOT / "docs" / "plugins" / "kg" / "graphs.md"


def test_every_block_runs(tmp_path: Path) -> None:
    assert run_page(PAGE, tmp_path) == 7


def test_the_types_with_another_answer_under_set_complement_are_named() -> None:
    """Those with a negated atom between two variables."""
    between = [
        name
        for name, kind in load_types().items()
        if any(len(slot.variables) == 2 for slot in Template.of(kind.query).negated)
    ]
    assert set(between) == {"pni", "2nm", "2pni", "pn3i", "upni", "unpi", "3nmp", "3cn", "3cnm"}
    assert all(f"`{name}`" in PAGE.read_text(encoding="utf-8") for name in between)
