"""Blocks of pages and cells of notebooks, without running them: names that they import, and commands with options.

`tox -e thorough` runs the blocks themselves; tests beside this one run those of a few pages.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from code_blocks import FENCE, blocks
from shared_folder import ROOT

from peirce.commands.main import commands, load_command

PAGES = sorted(
    path
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "*/README.md",
        "*/docs/*.md",
        "plugins/*/README.md",
        "plugins/*/docs/*.md",
    )
    for path in ROOT.glob(pattern)
    if path.name != "changelog.md" and "build" not in path.parts
)
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
COMMAND = re.compile(r"(?:^|\$ |; |&& |^PYTHONPATH=\S+ )peirce ([a-z][^|>;&#\n]*)", re.M)


def python_of(page: Path) -> Iterator[tuple[str, str]]:
    """The Python code of a page or notebook, each piece with its place."""
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        code = [(i, "".join(c["source"])) for i, c in enumerate(cells) if c["cell_type"] == "code"]
        yield from ((f"cell {i}", source) for i, source in code if not source.startswith("%%"))
        return
    for each in blocks(page):
        # A part of a class, which the guide quotes from an example, is indented.
        if each.language == "python" and not each.code.partition("\n")[2].startswith(" "):
            yield f"line {each.line}", each.code


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What code takes from Peirce's packages: a module and a name of it, or a module alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("peirce"):
            yield from ((node.module or "", each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.startswith("peirce"))
        elif (
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "peirce"
        ):
            yield "peirce", node.attr


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_its_code_imports_is_there(page: Path) -> None:
    for place, code in python_of(page):
        for module, name in imported(ast.parse(code)):
            try:
                found = not name or hasattr(import_module(module), name) or import_module(f"{module}.{name}")
            except ModuleNotFoundError as error:
                raise AssertionError(f"{place}: {module} {name}: {error}") from error
            assert found, f"{place}: {module} has no {name}"


def words_of(page: Path) -> Iterator[tuple[int, list[str]]]:
    """The commands of a page's shell blocks and sentences, each as words without what is quoted, with its line."""
    text = page.read_text(encoding="utf-8")
    said = re.finditer(r"(?<!`)`peirce [^`]+`", FENCE.sub(lambda block: "\n" * block[0].count("\n"), text))
    pieces = [(text.count("\n", 0, each.start()) + 1, each[0].strip("`")) for each in said]
    pieces += [(each.line, each.code) for each in blocks(page) if each.language in ("sh", "console", "bash")]
    for line, code in pieces:
        code = re.sub(r"""'[^']*'|"[^"]*"|\\\n""", " ", code)
        yield from ((line, command.split()) for command in COMMAND.findall(code))


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    """Every command by what a user types for it."""
    return {command.words: command for command in commands()}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_its_commands_have_the_options_that_it_gives_them(page: Path, known: dict[str, Any]) -> None:
    for line, words in words_of(page):
        name = max(
            (each for each in known if each.split() == words[: len(each.split())]), key=len, default=None
        )
        if name is None:
            continue  # a command of the page's own plug-in
        rest = words[len(name.split()) :]
        command = load_command(known[name])
        while rest and (nested := getattr(command, "commands", None)):
            command = nested[rest.pop(0)]
        if command.ignore_unknown_options or name in ("bench", "export"):
            continue  # options of tasks and exporters, and sizes of dims
        options = {opt for param in command.params for opt in (*param.opts, *param.secondary_opts)}
        given = {word.partition("=")[0] for word in rest if word.startswith("--") and word != "--"}
        assert given <= options | {"--help"}, f"line {line}: peirce {name} has no {given - options}"
