"""README.md: what it says can be run is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from code_blocks import FENCE, blocks, run_page
from shared_folder import ROOT

README = ROOT / "README.md"


SUITE = "peirce plugins check"
"""A block that takes as long as the others together; tests of `peirce new` check parts of the same kind."""


@pytest.mark.parametrize("but", [SUITE, pytest.param(None, marks=pytest.mark.thorough)])
def test_every_block_runs(but: str | None, tmp_path: Path) -> None:
    assert run_page(README, tmp_path, but=but) >= 7 - bool(but)


def test_only_the_two_commands_are_left_out() -> None:
    # Both run tox, and one of them runs this test.
    left = [line for block in blocks(README) if block.reason for line in block.code.splitlines()]
    assert left == ["pip install tox && tox -e demo", "pip install tox && tox"]


def test_its_links_lead_somewhere() -> None:
    prose = FENCE.sub("", README.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)#]+)", prose)
    assert links
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link
