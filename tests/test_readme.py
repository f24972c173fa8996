"""README.md: what it says can be run is run."""

from __future__ import annotations

import re
from pathlib import Path

from code_blocks import FENCE, blocks, run_page
from shared_folder import ROOT

README = ROOT / "README.md"


def test_every_block_runs(tmp_path: Path) -> None:
    assert run_page(README, tmp_path) >= 7


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
