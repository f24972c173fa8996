"""Python files of the working directory do not run, whatever they are called."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from command_line import without_registry_file

OURS = ("conftest", "sitecustomize", "usercustomize", "setup")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module for every module of Python and every package that is installed; each tells that it ran."""
    folder = without_registry_file(tmp_path_factory.mktemp("hostile"))
    for name in {*sys.stdlib_module_names, *packages_distributions(), *OURS}:
        if name.isidentifier():
            (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'a').write('{name}\\n')\n")
    (folder / "graph").mkdir()
    triples = {"train": "a\tr\tb\nb\tr\tc\nc\tr\td\nd\tr\ta\n", "valid": "a\tr\tc\n", "test": "b\tr\td\n"}
    for split, lines in triples.items():
        (folder / "graph" / f"{split}.tsv").write_text(lines)
    return folder


def test_no_module_of_the_working_directory_runs(hostile: Path) -> None:
    words = "kg sample --graph graph -o queries --types 1p,2p --count 2 --workers 2"
    # The script that pip installs runs without -P.
    script = hostile.parent / f"{hostile.name}-script" / "peirce"
    script.parent.mkdir(exist_ok=True)
    script.write_text("from peirce.commands.main import main\nif __name__ == '__main__':\n    main()\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PEIRCE_", "PYTHON"))}
    command = [sys.executable, str(script), *words.split()]
    done = subprocess.run(command, cwd=hostile, env=kept, capture_output=True, text=True, check=False)
    ran = hostile / "ran"
    assert not ran.exists(), ran.read_text()
    assert done.returncode == 0, done.stderr
