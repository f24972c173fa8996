"""The type of the fixture that runs the `peirce` command, and where it runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from peirce.commands.main import main

Run = Callable[..., "subprocess.CompletedProcess[str]"]
"""Arguments as strings, `beside` and environment variables by name."""


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
