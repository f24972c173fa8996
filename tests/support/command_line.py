"""The type of the fixture that runs the `peirce` command, where it runs, and what is installed there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from peirce.commands.main import main

Run = Callable[..., "subprocess.CompletedProcess[str]"]
"""Arguments as strings, `beside` and environment variables by name."""


def python_prints(program: str) -> str:
    """The last line that a program prints, in a process of its own."""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def exit_code(*arguments: object) -> int:
    """The exit code of the command line, in this process."""
    with pytest.raises(SystemExit) as exited:
        main([str(argument) for argument in arguments])
    return int(exited.value.code or 0)


def without_registry_file(folder: Path) -> Path:
    """The folder, if no registry.toml above it would be found from there and be in force, or edited, in a test."""
    found = [str(above / "registry.toml") for above in folder.parents if (above / "registry.toml").exists()]
    assert not found, f"these tests run below {folder}; remove {' and '.join(found)}"
    return folder
