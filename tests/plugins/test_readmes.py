"""The README of each package: one screen that names what the package registers, and an example that runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from code_blocks import FENCE, blocks, run_page
from peirce.registry import KINDS, Registry
from shared_folder import ROOT

READMES = sorted((ROOT / "plugins").glob("peirce_*/README.md"))


@pytest.fixture(params=READMES, ids=lambda path: path.parent.name)
def readme(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_every_package_has_one() -> None:
    packages = [path.parent for path in (ROOT / "plugins").glob("*/__init__.py")]
    assert sorted(packages) == [path.parent for path in READMES]


def test_it_fits_one_screen(readme: Path) -> None:
    lines = readme.read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# {readme.parent.name}"
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 120


def test_it_names_every_part_task_and_command(readme: Path, registry: Registry) -> None:
    package = readme.parent.name
    named = set(re.findall(r"`([^`]+)`", FENCE.sub("", readme.read_text(encoding="utf-8"))))
    own = {
        entry.name
        for kind in KINDS
        for entry in registry.entries(kind)
        if entry.part.__module__.partition(".")[0] == package
    }
    assert own <= named
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    commands = {
        f"peirce {name.partition('.')[0]}"
        for name, value in project["entry-points"]["peirce.commands"].items()
        if value.startswith(f"{package}.")
    }
    written = {" ".join(name.split()[:2]) for name in named}
    assert commands <= written


def test_its_example_runs(readme: Path, tmp_path: Path) -> None:
    (example,) = blocks(readme)
    assert "# prints" in example.code
    assert run_page(readme, tmp_path) == 1


def test_its_links_lead_somewhere(readme: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", FENCE.sub("", readme.read_text(encoding="utf-8")))
    for link in links:
        assert (readme.parent / link).exists(), link
