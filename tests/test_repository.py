"""What the repository promises: its layout, its arrows, its pins, and that CI skips nothing that reads `shared`."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
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
from peirce.resources import packaged_registry
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


def test_what_ships_is_found() -> None:
    assert tomllib.loads(packaged_registry().read_text(encoding="utf-8"))["format"] == 1


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
        assert re.fullmatch(r"Add [^\n]+\.", inspect.getdoc(hook) or "")
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


def test_extras(project: dict[str, Any]) -> None:
    extras = project["project"]["optional-dependencies"]
    everyday = ["onnx", "train", "kg", "ray", "text", "transformers", "testing", "triton"]
    assert set(extras) == {*everyday, *BY_NAME, "docs", "all"}
    assert extras["all"] == [f"peirce[{','.join(everyday)}]"]
    assert "onnxruntime" in {Requirement(line).name for line in extras["onnx"]}
    assert "onnxruntime-gpu" in {Requirement(line).name for line in extras["gpu"]}
    core = {Requirement(line).name for line in project["project"]["dependencies"]}
    assert core == {
        "torch",
        "numpy",
        "pluggy",
        "attrs",
        "cattrs",
        "tomlkit",
        "typer",
        "rich",
        "safetensors",
        "lazy-loader",
    }


def test_tox_runs_what_every_change_must_pass(tox: ConfigParser) -> None:
    assert [name.strip() for name in tox["tox"]["env_list"].split(",")] == [
        "lint",
        "types",
        "layers",
        "tests",
    ]
    for name in ("alone", "demo", "docs", "bench", "export-all", "tensorrt", "serve", "lowest"):
        assert tox.get(f"testenv:{name}", "description")
    assert tox["testenv"]["package"] == "wheel"
    for name in ("lint", "layers"):
        assert tox[f"testenv:{name}"]["skip_install"] == "true"
    for section in tox.sections():
        assert not re.search(r"\b(gpu|tensorrt)\b", tox.get(section, "extras", fallback=""))


def test_ci_runs_the_readme_s_test_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = "pip install tox && tox"
    assert re.search(rf"^\s*{re.escape(command)}\s*(#.*)?$", readme, re.MULTILINE), (
        "README.md lacks the test command"
    )
    assert f"{command} -e demo" in readme
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_the_licence(project: dict[str, Any]) -> None:
    assert project["project"]["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


READS_SHARED = """
import pytest

def test_that_reads_it(shared):
    assert shared.is_dir()

def test_that_skips_itself(shared):
    pytest.skip("the data are large")

def test_of_something_else():
    pytest.skip("not here")
"""


@pytest.mark.parametrize(
    ("ci", "there", "outcomes"),
    [
        ("true", True, "1 failed, 1 passed, 1 skipped"),
        ("true", False, "1 skipped, 2 errors"),
        ("", True, "1 passed, 2 skipped"),
        ("", False, "3 skipped"),
    ],
)
def test_under_ci_what_reads_shared_is_not_skipped(
    tmp_path: Path, ci: str, there: bool, outcomes: str
) -> None:
    (tmp_path / "test_reading.py").write_text(READS_SHARED)
    folder = tmp_path / "shared"
    if there:
        folder.mkdir()
    environment = os.environ | {
        "CI": ci,
        "PEIRCE_SHARED": str(folder),
        "PYTHONPATH": str(ROOT / "tests" / "support"),
        "PYTEST_ADDOPTS": "",
    }
    command = (
        f"{shlex.quote(sys.executable)} -P -m pytest -q -c /dev/null -p shared_folder -p no:cacheprovider"
    )
    done = subprocess.run(
        [*shlex.split(command), str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert re.search(rf"^{outcomes} in ", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert done.returncode == (1 if ci else 0)


def test_here_too(shared: Path) -> None:
    """Under CI this fails where the folder is absent."""
    assert (shared / "golden").is_dir()
