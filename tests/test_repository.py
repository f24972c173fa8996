"""What the repository promises: its layout, its arrows, its pins, and that CI skips nothing that reads `shared`."""

from __future__ import annotations

import inspect
import re
import tomllib
from configparser import ConfigParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from peirce.registry import EXPERIMENTS, KINDS, hookspecs, ready_specs
from peirce.registry.file import ANNOUNCED
from shared_folder import ROOT

ROOTS = (
    "core/peirce",
    *sorted(f"plugins/{path.name}" for path in (ROOT / "plugins").iterdir()),
    "export/peirce_export",
)


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tox() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini", encoding="utf-8")
    return parser


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


def test_core_names_neither_plugins_nor_export() -> None:
    for path in (ROOT / "core").rglob("*.py"):
        assert not re.search(
            "peirce_(basics|folnet|kg|text|hf|tpru|logic|export)", path.read_text(encoding="utf-8")
        ), path


def test_every_kind_has_a_hook_with_a_sentence() -> None:
    hooks = {
        name: hook
        for name, hook in inspect.getmembers(hookspecs, inspect.isfunction)
        if name.startswith("register_")
    }
    assert set(hooks) == {f"register_{kind}" for kind in (*KINDS, *ANNOUNCED, EXPERIMENTS)}
    for hook in hooks.values():
        assert re.match(r"Add [^\n]+\.(\n|$)", inspect.getdoc(hook) or "")
        assert not inspect.signature(hook).parameters


BY_NAME = ("gpu", "tensorrt", "tensorrt-rtx", "logic")
"""Extras that no environment of every change installs."""


def test_constraints_pin_all_that_ci_installs(project: dict[str, Any], tox: ConfigParser) -> None:
    pinned = pins(ROOT / "constraints.txt")
    assert pinned["torch"] == Version("2.13.0")
    for requirement in requirements(project, *BY_NAME):
        assert normal(requirement.name) in pinned, f"{requirement} is not pinned"
        assert pinned[normal(requirement.name)] in requirement.specifier, (
            f"{requirement} excludes its own pin"
        )
    for section in tox.sections():
        for name in tox.get(section, "deps", fallback="").split():
            if not name.startswith("{"):
                assert normal(name) in pinned, f"{name} of tox.ini is not pinned"
    assert not {"onnxruntime-gpu", "tensorrt"} & set(pinned)


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
