"""`tox -e alone`: what it builds is one package and no more, and a package that leans on another fails."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path
from zipfile import ZipFile

import alone
import pytest
from packaging.metadata import parse_email


def contents(wheel: Path) -> tuple[set[str], dict[str, str]]:
    """The packages of a wheel, and its metadata by name: METADATA and entry_points.txt."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
        texts = {
            name: archive.read(f"{info}/{name}").decode()
            for name in ("METADATA", "entry_points.txt")
            if f"{info}/{name}" in names
        }
    return {name.split("/")[0] for name in names} - {info}, texts


def test_every_package_of_the_wheel_is_tried() -> None:
    folders = {path.parent.name for path in alone.ROOT.glob("plugins/*/__init__.py")}
    assert set(alone.SOURCES) == {*folders, "peirce", "peirce_export"}


def test_every_entry_point_belongs_to_one_package() -> None:
    announced = [
        (group, name)
        for package in alone.SOURCES
        for group, own in alone.entry_points(package).items()
        for name in own
    ]
    project = alone.PROJECT["project"]
    groups = {"scripts": project["scripts"], **project["entry-points"]}
    assert sorted(announced) == sorted((group, name) for group, entries in groups.items() for name in entries)


def test_a_package_stands_beside_the_core_the_exporter_and_what_it_declares() -> None:
    assert alone.beside("peirce") == []
    assert alone.beside("peirce_export") == ["peirce"]
    assert alone.beside("peirce_basics") == ["peirce", "peirce_export"]
    assert alone.beside("peirce_hf") == ["peirce", "peirce_export", "peirce_text"]


def test_a_wheel_holds_one_package_with_its_entry_points(tmp_path: Path) -> None:
    packages, texts = contents(alone.build("peirce_tpru", tmp_path))
    assert packages == {"peirce_tpru"}
    points = ConfigParser()
    points.read_string(texts["entry_points.txt"])
    assert dict(points["peirce.plugins"]) == {"tpru": "peirce_tpru.plugin"}
    assert {target.partition(".")[0] for target in points["peirce.commands"].values()} == {"peirce_tpru"}
    metadata, _ = parse_email(texts["METADATA"])
    assert (metadata["name"], metadata["requires_dist"]) == ("peirce-tpru", ["peirce", "peirce-text"])


def test_the_core_s_wheel_has_its_files_and_no_plugin(tmp_path: Path) -> None:
    wheel = alone.build("peirce", tmp_path)
    packages, texts = contents(wheel)
    assert packages == {"peirce"}
    assert "peirce_" not in texts["entry_points.txt"]
    for line in ("peirce = peirce.__main__:main", "peirce = peirce.testing.plugin"):
        assert line in texts["entry_points.txt"]
    with ZipFile(wheel) as archive:
        assert "peirce/registry.toml" in archive.namelist()


PLUGIN = """
import peirce
from peirce.model import Task

class Toy(Task):
    DOCSTRING
    name = "toy"
    def prepare(self): return None
    def overrides(self, data): return {}
    def batches(self, data, split, seed, epoch): return iter(())
    def loss(self, model, batch): return batch["loss"]
    def assets(self, data): return {}
    def metrics(self, model, data, split): return {}

@peirce.hookimpl
def register_tasks():
    return [Toy]
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `peirce_toy` of one task, announced beside those that ship."""
    folder = tmp_path / "peirce_toy"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "plugin.py").write_text(PLUGIN.replace("DOCSTRING", "'Nothing to learn.'"))
    groups = alone.PROJECT["project"]["entry-points"]
    monkeypatch.setitem(groups, "peirce.plugins", {**groups["peirce.plugins"], "toy": "peirce_toy.plugin"})
    monkeypatch.setattr(alone, "PROCESSES", 0)
    monkeypatch.setitem(alone.SOURCES, "peirce_toy", folder)
    return folder


def test_a_package_that_stands_alone_passes(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert alone.main(["peirce_toy"]) == 0
    said = capsys.readouterr().out
    assert said == "peirce_toy: 2 checks on 1 parts, 2 modules imported, beside peirce, peirce_export\n"


def test_one_whose_check_fails_does_not(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "plugin.py").write_text(PLUGIN.replace("DOCSTRING", ""))
    assert alone.main(["peirce_toy"]) == 1
    assert "task 'toy' (plug-in peirce-toy:toy) breaks the contract" in capsys.readouterr().out


def test_one_that_leans_on_others_does_not(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for other in ("peirce_basics.plugin", "peirce_text"):
        (toy / f"on_{other.partition('.')[0]}.py").write_text(f"import {other}\n")
    assert alone.main(["peirce_toy"]) == 1
    said = capsys.readouterr().out
    for name in ("peirce_basics", "peirce_text"):
        wanted = f"peirce_toy.on_{name} cannot be imported: ModuleNotFoundError: No module named '{name}'"
        assert wanted in said


def test_a_package_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert alone.main(["peirce_toys"]) == 2
    assert "no package peirce_toys; there are peirce, peirce_basics" in capsys.readouterr().out
