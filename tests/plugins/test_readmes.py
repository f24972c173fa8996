"""The README of each distribution is its page: an install line, an example that runs, and all that it registers."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from code_blocks import FENCE, blocks, run_page
from shared_folder import ROOT
from thorough import often

from peirce.registry import KINDS, Registry

PROJECTS = sorted(
    path.parent for pattern in ("*/pyproject.toml", "plugins/*/pyproject.toml") for path in ROOT.glob(pattern)
)
RUN_ELSEWHERE = ("hf", "logic")
"""Those whose blocks take minutes: tests of their distributions run them, with the other pages."""
OFTEN = ("core", "export", "queries", "kg")
"""Those that every run has: the ones without torch, and the one of README's first command."""


@pytest.fixture(params=PROJECTS, ids=lambda path: path.name)
def project(request: pytest.FixtureRequest) -> Path:
    """The folder of a distribution."""
    path: Path = request.param
    return path


def test_it_says_how_to_install_it(project: Path) -> None:
    name = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
    text = (project / "README.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    assert re.search(rf"pip install '?{name}\b", text)


def test_it_names_every_part_task_and_command(project: Path, registry: Registry) -> None:
    declared = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = set(re.findall(r"`([^`]+)`", FENCE.sub("", (project / "README.md").read_text(encoding="utf-8"))))
    entries = (entry for kind in KINDS for entry in registry.entries(kind))
    assert {entry.name for entry in entries if entry.distribution == declared["name"]} <= named
    commands = declared.get("entry-points", {}).get("peirce.commands", {})
    written = " ".join(named)
    for name in commands:
        assert f"peirce {name.replace('.', ' ')}" in written


@pytest.mark.parametrize(
    "name", often([path.name for path in PROJECTS if path.name not in RUN_ELSEWHERE], OFTEN)
)
def test_its_blocks_run(name: str, tmp_path: Path) -> None:
    (page,) = (path / "README.md" for path in PROJECTS if path.name == name)
    assert run_page(page, tmp_path) >= 1
    assert any("# prints" in block.code or block.language == "console" for block in blocks(page))
