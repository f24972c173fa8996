"""Runs the code blocks of a page of documentation, in order, in one folder, as a reader would.

* A block whose first line is a comment with a file's name and no more, such as `# small.toml`, becomes that file.
* A `python` block without one is run; text after `# prints` must be in what it prints.
* A `sh` block is run by a shell that stops at the first failure.
* A `console` block has commands behind `$ `, and below each of them lines that its output must have, spaces aside;
  `...` stands for anything.

Blocks in other languages, and those after an HTML comment `<!-- not run: REASON -->`, are left alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(
    r"^(<!-- not run: (?P<reason>[^>]+) -->\n+)?```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S
)
FILE = re.compile(r"# ([\w./-]+\.\w+)\n")


class Block(NamedTuple):
    """One block: its language, its text, the line of the page that it begins at, and why it is not run, if so."""

    language: str
    code: str
    line: int
    reason: str | None

    @property
    def file(self) -> str | None:
        """The file that the block is, if it names one."""
        match = FILE.match(self.code)
        return match[1] if match else None


def blocks(page: Path) -> list[Block]:
    """The code blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(m["language"], m["code"], text.count("\n", 0, m.start()) + 1, m["reason"])
        for m in FENCE.finditer(text)
    ]


def run_page(page: Path, folder: Path, *, but: str | None = None) -> int:
    """Run a page's blocks in a folder, but those with a text; the number that did something.

    An AssertionError names the block that failed.
    """
    done = 0
    for block in blocks(page):
        if block.reason is not None or (but and but in block.code):
            continue
        place = f"{page.name}:{block.line}"
        if block.file is not None:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            script = folder / f"line_{block.line}.py"
            script.write_text(block.code, encoding="utf-8")
            printed = _run([sys.executable, str(script)], folder, place)
            for wanted in re.findall(r"# prints (.*)", block.code):
                assert _flat(wanted) in _flat(printed), f"{place}: no {wanted!r} in\n{printed}"
        elif block.language == "sh":
            _run(["bash", "-euo", "pipefail", "-c", block.code], folder, place)
        elif block.language == "console":
            _console(block, folder, place)
        else:
            continue
        done += 1
    return done


def _console(block: Block, folder: Path, place: str) -> None:
    commands = re.split(r"^\$ ", block.code, flags=re.M)
    assert not commands[0].strip(), f"{place}: a console block begins with `$ `"
    for entry in commands[1:]:
        command, _, shown = entry.partition("\n")
        printed = _run(["bash", "-c", command], folder, place, check=False)
        for line in shown.splitlines():
            if line.strip() and line.strip() != "...":
                assert _flat(line) in _flat(printed), f"{place}: `{command}` prints no {line!r}:\n{printed}"


def _run(command: list[str], folder: Path, place: str, *, check: bool = True) -> str:
    variables = {
        k: v for k, v in os.environ.items() if not k.startswith(("PEIRCE_", "PYTEST_", "PYTHONPATH"))
    }
    variables |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(
            folder
        ),  # a reader's plug-in module lies where it is installed, and here beside the page
        "PEIRCE_REGISTRY": str(folder / "registry.toml"),
        "XDG_CACHE_HOME": str(folder / ".cache"),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "150",
    }
    # A registry.toml further up is not the reader's.
    registry = folder / "registry.toml"
    if not registry.exists():
        registry.write_text("format = 1\n", encoding="utf-8")
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=600, check=False
    )
    output = done.stdout + done.stderr
    assert not check or done.returncode == 0, f"{place} fails:\n{output}"
    return output


def _flat(text: str) -> str:
    return " ".join(text.split())
