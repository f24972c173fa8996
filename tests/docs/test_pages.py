"""The documentation: what it says can be run is run, and what it quotes is what stands in the files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from code_blocks import blocks, run_page
from shared_folder import ROOT
from thorough import often

from peirce.registry import KINDS, added_kinds
from peirce_testing.checks import CHECKS

DOCS = ROOT / "docs"
EXAMPLE = DOCS.parent / "examples" / "peirce-hadamard"
GUIDE = DOCS / "guide" / "write-a-plugin"
CHECKS_PAGE = GUIDE / "checks.md"
OWN_FILES = ("sides.py", "helix.py", "highway.py", "confidence.py", "retention.py", "fading.py")
"""Plug-ins of a page that the example does not have."""


def test_the_blocks_of_releases_run_and_one_version_is_everywhere(tmp_path: Path) -> None:
    assert run_page(DOCS / "releases.md", tmp_path) == 2
    project = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {project['version']}\n" in (DOCS / "changelog.md").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_the_blocks_of_entailment_run(tmp_path: Path) -> None:
    assert run_page(ROOT / "plugins" / "tpru" / "docs" / "entailment.md", tmp_path) == 2
    assert {"roles.svg", "entails.onnx"} <= {path.name for path in tmp_path.iterdir()}


PAGES = [
    ("compose", 20), ("train", 2), ("draw", 6), ("own-data", 8), ("look", 4), ("export-and-run", 10), ("generate", 6),
]  # fmt: skip


@pytest.mark.parametrize(("page", "count"), often(PAGES, [("train", 2)]))
def test_every_block_runs(page: str, count: int, tmp_path: Path) -> None:
    assert run_page(DOCS / "guide" / f"{page}.md", tmp_path) == count


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("page", "count"),
    [
        ("first-operator", 4),
        ("tasks", 3),
        ("exporters", 5),
        ("commands", 4),
        ("heads", 4),
        ("architectures", 4),
    ],
)
def test_every_example_of_the_guide_runs(page: str, count: int, tmp_path: Path) -> None:
    path = GUIDE / f"{page}.md"
    announced = next((block for block in blocks(path) if block.file == "pyproject.toml"), None)
    if announced is not None:
        install(announced.code, tmp_path)
    assert run_page(path, tmp_path) == count + (announced is not None)


def install(pyproject: str, folder: Path) -> None:
    """What pip writes for a distribution whose one module lies in `folder`: its metadata and its entry points."""
    project = tomllib.loads(pyproject)["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    fields = {"Name": project["name"], "Version": project["version"], "Summary": project["description"]}
    metadata = ["Metadata-Version: 2.1", *(f"{name}: {value}" for name, value in fields.items())]
    (info / "METADATA").write_text("\n".join(metadata) + "\n", encoding="utf-8")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_the_guide_quotes_the_example() -> None:
    quoted = [
        (page, block)
        for page in ("index", "operators", "positions")
        for block in blocks(GUIDE / f"{page}.md")
        if block.file and block.file not in OWN_FILES
    ]
    assert len(quoted) >= 10
    for page, block in quoted:
        assert block.file is not None
        _, _, code = block.code.partition("\n")
        whole = (EXAMPLE / block.file).read_text(encoding="utf-8")
        assert code in whole, f"{page}.md:{block.line} is not in {block.file}"


def test_every_check_has_its_section() -> None:
    sections = re.findall(r"^## Check: (.+)$", CHECKS_PAGE.read_text(encoding="utf-8"), re.M)
    assert sorted(name.replace(" ", "_") for name in sections) == sorted(check.name for check in CHECKS)
    for check in CHECKS:
        assert f'"Check: {check.name.replace("_", " ")}"' in check.link


def test_the_guide_knows_every_hook() -> None:
    text = (GUIDE / "index.md").read_text(encoding="utf-8")
    assert all(f"`register_{kind}`" in text for kind in {*KINDS, *added_kinds()})


def test_the_floors_of_the_design_are_those_that_are_held() -> None:
    contracts = tomllib.loads((ROOT / "layers.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (floors,) = (one["layers"] for one in contracts["contracts"] if one.get("exhaustive"))
    rows = re.findall(r"^\| \d+ \| (.+?) \|", (DOCS / "design.md").read_text(encoding="utf-8"), re.M)
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == [
        set(re.findall(r"\w+", floor)) for floor in floors
    ]
