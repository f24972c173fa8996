"""Notebooks of pages whose blocks are a whole session: `python docs/writer/notebooks.py` writes them anew.

A block that is a file becomes a cell that writes it, a block of commands one that runs them, in a new folder. What is
not run stays text. Cells have no output. A page's links are left out: the first line names the page.
"""

from __future__ import annotations

import json
import re
import sys

from places import NOTEBOOKS, ROOT

sys.path.append(str(ROOT / "tests" / "support"))
from code_blocks import FENCE, FILE

PAGES = {
    "own-table": "docs/guide/own-data.md",
    "own-encoder": "docs/guide/compose.md",
    "own-operator": "docs/guide/write-a-plugin/first-operator.md",
}
"""The page of each notebook."""
START = """\
import os
import tempfile

os.environ["MPLBACKEND"] = "agg"  # commands draw into files
os.chdir(tempfile.mkdtemp())  # what follows writes here
print(os.getcwd())"""


def notebook(name: str) -> str:
    """A notebook of `PAGES` as the text of its file."""
    page = PAGES[name]
    text = (ROOT / page).read_text(encoding="utf-8")
    heading, _, text = text.partition("\n")
    whence = (
        f"This notebook is made of the page `{page}`, which has links and what its commands print. It needs\n"
    )
    cells = [_text(f"{heading}\n\n{whence}`pip install 'peirce[all]'`."), _code(START)]
    end = 0
    for match in FENCE.finditer(text):
        language, code = match["language"], match["code"].strip("\n")
        if match["reason"] or language not in ("python", "toml", "sh", "console"):
            continue
        if file := FILE.match(match["code"]):
            code = f"%%writefile {file[1]}\n{code}"
        elif language == "console":
            commands = [line.removeprefix("$ ") for line in _commands(code)]
            refused = "--no-raise-error" if re.search("^error: |checks failed", code, re.MULTILINE) else "-e"
            code = "\n".join([f"%%bash {refused}", *commands])
        elif language == "sh":
            code = f"%%bash -e\n{code}"
        elif language == "toml":
            continue
        cells += [_text(text[end : match.start()]), _code(code)]
        end = match.end()
    cells = [cell for cell in (*cells, _text(text[end:])) if cell["source"]]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    content = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _commands(code: str) -> list[str]:
    """The lines of commands, and those that go on after a backslash; not what they print."""
    found: list[str] = []
    for line in code.splitlines():
        if line.startswith("$ ") or (found and found[-1].endswith("\\")):
            found.append(line)
    return found


def _text(text: str) -> dict[str, object]:
    """A cell of Markdown without links, pictures and comments, and without the line that leads to the notebook."""
    text = re.sub(r"\n[^\n]*\.ipynb\)[^\n]*\n", "", text)
    text = re.sub(r"<!--.*?-->\n|^!\[.*?\]\(.*?\)(\{.*?\})?$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\[([^\]`]*(?:`[^`]*`[^\]`]*)*)\]\((?!https?:)[^)]+\)", r"\1", text)
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip("\n")}


def _code(code: str) -> dict[str, object]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": code,
    }


if __name__ == "__main__":
    for name in PAGES:
        (NOTEBOOKS / f"{name}.ipynb").write_text(notebook(name), encoding="utf-8")
