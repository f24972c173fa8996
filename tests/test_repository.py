"""What the repository promises: its layout, its lowest releases, and that CI skips nothing that reads `shared`."""

from __future__ import annotations

import re
import tomllib
from configparser import ConfigParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from shared_folder import ROOT

from peirce.registry import ready_specs

ROOTS = (
    "core/peirce",
    *sorted(f"plugins/{path.name}" for path in (ROOT / "plugins").iterdir()),
    "export/peirce_export",
)


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pins(path: Path) -> dict[str, Version]:
    lines = [
        line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
    ]
    found = {}
    for line in lines:
        name, version = re.fullmatch(r"([A-Za-z0-9._-]+)==([^\s;]+)", line).groups()  # type: ignore[union-attr]
        found[normal(name)] = Version(version)
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(project: dict[str, Any], *without: str) -> list[Requirement]:
    extras = project["project"]["optional-dependencies"]
    listed = list(project["project"]["dependencies"])
    for extra, lines in extras.items():
        if extra not in without:
            listed += lines
    return [Requirement(line) for line in listed if not line.startswith("peirce[")]


def test_the_source_roots_are_typed_and_described() -> None:
    for root in ROOTS:
        assert (ROOT / root / "py.typed").is_file()
        package = Path(root).name
        assert (resources.files(package) / "py.typed").is_file()
        for path in (ROOT / root).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert not text.strip() or text.lstrip("r").startswith('"""'), f"{path} has no docstring"


def test_every_spec_of_a_package_is_a_ready_one() -> None:
    shipped = {path.stem for path in ROOT.glob("plugins/*/specs/*.toml")}
    assert shipped == set(ready_specs())


BY_NAME = ("gpu", "tensorrt", "tensorrt-rtx", "logic")
"""Extras that no environment of every change installs."""


def test_constraints_pin_all_that_ci_installs(project: dict[str, Any]) -> None:
    """An unpinned package is another one next week, and may bring another torch."""
    pinned = pins(ROOT / "constraints.txt")
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    wanted = {normal(requirement.name) for requirement in requirements(project, *BY_NAME)}
    for section in tox.sections():
        deps = tox.get(section, "deps", fallback="").split()
        wanted |= {normal(name) for name in deps if not name.startswith("{")}
    assert wanted - {*pinned} == set()


def test_the_lowest_releases_are_the_lower_bounds(project: dict[str, Any]) -> None:
    bounds = {}
    for requirement in requirements(project, *BY_NAME, "docs"):
        (bound,) = [one for one in requirement.specifier if one.operator == ">="]
        bounds[normal(requirement.name)] = Version(bound.version)
    lowest = pins(ROOT / "tests" / "lowest.txt")
    assert {name: lowest.get(name) for name in bounds} == {
        name: Version("2.13.0") if name == "torch" else bound for name, bound in bounds.items()
    }


def test_ci_runs_the_readme_s_test_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = "pip install tox && tox"
    assert re.search(rf"^\s*{re.escape(command)}\s*(#.*)?$", readme, re.MULTILINE), (
        "README.md lacks the test command"
    )
    assert f"{command} -e demo" in readme
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_here_too(shared: Path) -> None:
    """Under CI this fails where the folder is absent."""
    assert (shared / "golden").is_dir()
