"""The check of project files: it finds nothing here, and each fault that is planted in a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from shared_folder import ROOT
from workspace import admits, distributions, problems, write

LEFT = "tests", "docs", "__pycache__"
"""Folders that the copy has no need of."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the distributions."""
    for each in distributions().values():
        target = tmp_path / each.folder.relative_to(ROOT)
        shutil.copytree(each.folder, target, ignore=shutil.ignore_patterns(*LEFT))
        (target / "tests").mkdir()
    return tmp_path


FAULTS = (
    ("plugins/tpru/pyproject.toml", '"peirce-training>=', '"tokenizers>=', "imports peirce_training"),
    ("plugins/queries/pyproject.toml", '"lark>=1.2.2",', "", "imports lark"),
    ("plugins/basics/pyproject.toml", "dependencies = [", 'dependencies = ["lark>=1.2.2", ', "requires lark"),
    ("plugins/hf/pyproject.toml", "[train]", "[training]", "no extra training"),
    ("plugins/folnet/pyproject.toml", "rc1", "", "does not admit"),
    ("plugins/relations/pyproject.toml", "networkx>=3.4", "networkx>=3.3", "networkx>=3.3"),
    ("plugins/show/pyproject.toml", 'dynamic = ["version"]', 'version = "1"', "peirce-show: its version"),
    ("meta/pyproject.toml", ",papers]", "]", "does not bring peirce-papers"),
    ("export/pyproject.toml", "[tool.peirce.not-required]", "[tool.peirce.other]", "imports onnx_ir"),
    ("plugins/kg/peirce_kg/exported.py", 'extra="', 'extra="no-such-', "which does not exist"),
)
"""Files of the copy, what is replaced in them by what, and what is said of it."""


def replace(tree: Path, path: str, old: str, new: str) -> None:
    text = (tree / path).read_text(encoding="utf-8")
    assert old in text, f"{path} lacks {old}"
    (tree / path).write_text(text.replace(old, new), encoding="utf-8")


def test_project_files_require_what_is_imported() -> None:
    assert list(problems()) == []


def test_planted_faults_are_found(tree: Path) -> None:
    for path, old, new, _ in FAULTS:
        replace(tree, path, old, new)
    found = list(problems(tree))
    for *_, problem in FAULTS:
        assert any(problem in each for each in found), problem


def test_what_follows_from_imports_is_written(tree: Path) -> None:
    before = list(problems(tree))
    replace(tree, "plugins/folnet/pyproject.toml", "rc1", "")
    replace(
        tree, "plugins/basics/pyproject.toml", "dependencies = [", 'dependencies = ["peirce-kg>=1.0.0rc1", '
    )
    replace(tree, "plugins/papers/pyproject.toml", '"peirce-training>=1.0.0rc1",', "")
    assert list(problems(tree)) != before
    write(tree)
    assert list(problems(tree)) == before


@pytest.mark.parametrize(
    ("requirement", "admitted"),
    [
        ("peirce-kg>=1.0.0rc1", True),
        ("peirce-kg>=1.0", False),
        ("peirce-kg>=0.9", False),
        ("peirce-kg==1.0.0rc1", False),
        ("peirce-kg", False),
    ],
)
def test_a_candidate_needs_a_bound_that_admits_candidates(requirement: str, admitted: bool) -> None:
    assert admits(Requirement(requirement), Version("1.0.0rc1")) is admitted
