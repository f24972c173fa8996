"""The page of what others reported of such libraries: a line for each `report` mark in `tests/strangers`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from markdown_text import escaped, table
from places import ROOT

TESTS = ROOT / "tests" / "strangers"
INTRODUCTION = """\
# Found elsewhere, tried here

People who use exporters, runtimes, checkpoints, tables and graphs report what goes wrong with them. Each line is such a
report, of another project, and what happens when the same kind of input meets Peirce. The tests of
`tests/strangers` hold the lines, and this page is made of their marks. A report that is missing here is welcome:
CONTRIBUTING says how one is added.
"""


def pages() -> dict[str, str]:
    """The page, by its path in the site."""
    return {"results/strangers.md": page()}


def page() -> str:
    """The Markdown of the page: a table for each file of tests, in the order of their names."""
    lines = [INTRODUCTION]
    for path in sorted(TESTS.glob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        title = (ast.get_docstring(module) or path.stem).splitlines()[0].rstrip(".")
        rows = [
            (f"{escaped(reported)} ([report]({address}))", escaped(here))
            for address, reported, here in reports(module)
        ]
        lines += [f"## {escaped(title)}", "", *table(("Reported elsewhere", "Here"), rows)]
    return "\n".join(lines)


def reports(module: ast.Module) -> Iterator[tuple[str, str, str]]:
    """The address, what was reported and what happens here, of each mark; the three are literal strings."""
    for node in module.body:
        for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.report":
                address, reported, here = (ast.literal_eval(argument) for argument in mark.args)
                yield address, reported, here


__all__ = ["TESTS", "page", "pages", "reports"]
