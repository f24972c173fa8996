"""The documentation: what it says can be run is run, and what it quotes is what stands in the files."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import peirce
import pytest
from code_blocks import FENCE, blocks, run_page
from peirce.commands.lines import packaged_lines
from peirce.commands.main import commands, loaded_command
from peirce.parts import fields
from peirce.registry import KINDS, Registry, ready_specs
from peirce.testing.checks import CHECKS
from shared_folder import ROOT

DOCS = ROOT / "docs"
EXAMPLE = DOCS.parent / "examples" / "peirce-hadamard"
GUIDE = DOCS / "writing-a-plugin.md"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The hook that makes the reference."""
    found = spec_from_file_location("reference_hook", DOCS / "hooks" / "reference.py")
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    sys.modules["reference_hook"] = module
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["composing-by-spec", "exporting-and-running", "generating"])
def test_every_block_runs(page: str, tmp_path: Path) -> None:
    assert run_page(DOCS / f"{page}.md", tmp_path) >= 6


def test_the_guide_quotes_the_example() -> None:
    quoted = [block for block in blocks(GUIDE) if block.file]
    assert len(quoted) >= 9
    for block in quoted:
        assert block.file is not None
        _, _, code = block.code.partition("\n")
        whole = (EXAMPLE / block.file).read_text(encoding="utf-8")
        assert code in whole, f"{GUIDE.name}:{block.line} is not in {block.file}"


def test_every_check_has_its_section() -> None:
    sections = re.findall(r"^### Check: (.+)$", GUIDE.read_text(encoding="utf-8"), re.M)
    assert [name.replace(" ", "_") for name in sections] == [check.name for check in CHECKS]
    for check in CHECKS:
        # Both mkdocs and GitHub make this anchor of the heading.
        anchor = f"Check: {check.name.replace('_', ' ')}".lower().replace(": ", "-").replace(" ", "-")
        assert check.link == f"docs/writing-a-plugin.md#{anchor}"


def test_the_guide_knows_every_hook() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert all(f"`register_{kind}`" in text for kind in KINDS)


def test_every_public_name_is_in_the_reference(reference: ModuleType) -> None:
    grouped = [name for names in reference.GROUPS.values() for name in names]
    assert sorted([*grouped, "__version__"]) == sorted(peirce.__all__)
    assert reference.api_page().count("\n::: ") == len(grouped)


def test_every_part_and_option_is_in_the_reference(reference: ModuleType, registry: Registry) -> None:
    page = reference.parts_page(registry)
    for kind in KINDS:
        for entry in registry.entries(kind):
            assert f"{{ #{kind}-{entry.name} }}" in page
            if kind == "heads":
                assert f"- labels: {entry.part.labels.partition('[')[0]}" in page
            classes = [entry.part.Options, *([entry.part.Dims] if kind == "architectures" else [])]
            for options in classes:
                unsaid = [field["name"] for field in fields(options) if not field["meaning"]]
                assert unsaid == [], f"{entry.name}: no meaning"


def test_every_ready_spec_is_in_the_reference(reference: ModuleType) -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \|$", reference.specs_page(), re.M)
    assert [name for name, _ in rows] == list(ready_specs())
    assert all(comment for _, comment in rows)


def test_every_command_is_in_the_reference(reference: ModuleType) -> None:
    page = reference.commands_page()
    shipped = {command.name: command for command in commands() if "peirce" in command.owners}
    assert shipped.keys() == packaged_lines().keys()
    for name, command in shipped.items():
        assert f"## peirce {name}\n" in page
        for words in _commands_within(loaded_command(command), f"peirce {name}"):
            assert f"```\n{words} " in page, f"no usage of {words}"


def _commands_within(command: Any, words: str) -> Iterator[str]:
    """What a user types for each command that is no group of others."""
    nested = getattr(command, "commands", None)
    if nested is None:
        yield words
    for name, one in (nested or {}).items():
        yield from _commands_within(one, f"{words} {name}")


def test_every_setting_of_training_is_in_the_reference(reference: ModuleType) -> None:
    from peirce.training import TrainingOptions

    rows = re.findall(r"^\| `train\.(\w+)` \| (?:`.+?`)? *\| (.+) \|$", reference.training_page(), re.M)
    assert [name for name, _ in rows] == [field.name for field in attrs.fields(TrainingOptions)]


def test_every_page_is_in_the_navigation_and_every_link_leads_somewhere() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert f": {page.name}" in navigation
        for link in re.findall(r"\]\(([^)#]+)", FENCE.sub("", page.read_text(encoding="utf-8"))):
            assert link.startswith(("https://", "reference/")) or (DOCS / link).exists(), (
                f"{page.name}: {link}"
            )
