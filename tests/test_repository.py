"""What the repository promises: its layout, its lowest releases, and that CI skips nothing that reads `shared`."""

from __future__ import annotations

import re
import tomllib
from configparser import ConfigParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version
from shared_folder import ROOT
from workspace import distributions, normal

from peirce.registry import ready_specs

DISTRIBUTIONS = distributions()
PACKAGES = {package: each.folder / package for each in DISTRIBUTIONS.values() for package in each.packages}


def pins(path: Path) -> dict[str, Version]:
    lines = [
        line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
    ]
    found = {}
    for line in lines:
        name, version = re.fullmatch(r"([A-Za-z0-9._-]+)==([^\s;]+)", line).groups()  # type: ignore[union-attr]
        found[normal(name)] = Version(version)
    return found


def requirements(*without: str) -> list[Requirement]:
    """What the distributions require of other projects, but for some extras."""
    listed = []
    for each in DISTRIBUTIONS.values():
        listed += each.dependencies
        listed += [line for extra, lines in each.extras.items() if extra not in without for line in lines]
    return [requirement for requirement in listed if normal(requirement.name) not in DISTRIBUTIONS]


def test_the_packages_are_typed_and_described() -> None:
    for folder in PACKAGES.values():
        assert (folder / "py.typed").is_file()
        for path in folder.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert not text.strip() or text.lstrip("r").startswith('"""'), f"{path} has no docstring"


def test_every_list_names_every_distribution() -> None:
    folders = {f"./{each.folder.relative_to(ROOT).as_posix()}" for each in DISTRIBUTIONS.values()}
    for name, prefix in (("dev.txt", "-e "), ("install.txt", "")):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        found = [
            line.removeprefix(prefix).partition("[")[0] for line in lines if line.startswith(f"{prefix}./")
        ]
        assert {*found} == folders, name
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert {*mypy["packages"]} == {*PACKAGES}
    sources = {folder.parent.relative_to(ROOT).as_posix() for folder in PACKAGES.values()}
    assert {*mypy["mypy_path"]} == sources
    tox = (ROOT / "tox.ini").read_text(encoding="utf-8")
    assert sources <= {*re.findall(r"\{tox_root\}/([a-z/]+)", tox)}
    layers = tomllib.loads((ROOT / "layers.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    assert {*layers["root_packages"]} == {*PACKAGES}


def test_every_face_is_held() -> None:
    """A folder with `__init__.pyi` has a contract in layers.toml, so that nobody reaches past it."""
    layers = tomllib.loads((ROOT / "layers.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    held = {one for each in layers["contracts"] for one in each.get("protected_modules", ())}
    for package, folder in PACKAGES.items():
        for face in folder.rglob("__init__.pyi"):
            if face.parent != ROOT / "core" / "peirce":
                room = ".".join((package, *face.parent.relative_to(folder).parts, "*"))
                assert room in held


def test_every_distribution_has_its_readme_and_the_licence() -> None:
    licence = (ROOT / "LICENSE").read_bytes()
    for name, each in DISTRIBUTIONS.items():
        assert (each.folder / "LICENSE").read_bytes() == licence
        assert not (each.folder / "LICENSE").is_symlink(), "an sdist would have a link that leads nowhere"
        assert (each.folder / "README.md").read_text(encoding="utf-8").startswith(f"# {name}\n")


def test_every_spec_of_a_package_is_a_ready_one() -> None:
    shipped = {path.stem for folder in PACKAGES.values() for path in folder.glob("specs/*.toml")}
    assert shipped == set(ready_specs())


BY_NAME = ("gpu", "tensorrt", "tensorrt-rtx")
"""Extras that no environment of every change installs."""


def test_constraints_pin_all_that_ci_installs() -> None:
    """An unpinned package is another one next week, and may bring another torch."""
    pinned = pins(ROOT / "constraints.txt")
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    wanted = {normal(requirement.name) for requirement in requirements(*BY_NAME)}
    for each in DISTRIBUTIONS.values():
        wanted |= {normal(requirement.name) for requirement in each.test_group} - {*DISTRIBUTIONS}
    for section in tox.sections():
        lines = tox.get(section, "deps", fallback="").splitlines()
        wanted |= {normal(Requirement(line).name) for line in lines if line and not line.startswith("{")}
    assert wanted - {*pinned} == set()


def test_the_lowest_releases_are_the_lower_bounds() -> None:
    bounds = {}
    for requirement in requirements(*BY_NAME):
        (bound,) = [one for one in requirement.specifier if one.operator == ">="]
        bounds[normal(requirement.name)] = Version(bound.version)
    lowest = pins(ROOT / "tests" / "lowest.txt")
    assert {name: lowest.get(name) for name in bounds} == bounds


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
