"""Programs of the suite that run in a process of their own and write what they find as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from peirce.testing.failures import BrokenError

TRACEBACK = "PEIRCE_TRACEBACK"
"""What the command line names where code broke, and shows tracebacks by."""
GUARD = 3600
"""Seconds after which a process that hangs is ended."""


def environment(path: Sequence[str] | None = None) -> dict[str, str]:
    """The environment of a process that may import what this one may, or what `path` says; it shows no tracebacks."""
    own = os.pathsep.join(filter(None, sys.path if path is None else path))
    return {**os.environ, TRACEBACK: "", "PYTHONPATH": own}


def found_by(program: str, *arguments: str, path: Sequence[str] | None = None) -> dict[str, Any]:
    """What a module writes to its first argument, run in an empty folder.

    Args:
        program: the module's name.
        arguments: those after the file.
        path: where it may import from; where this process does if None.

    Raises:
        BrokenError: the process ends before it has written.
    """
    with TemporaryDirectory() as folder:
        file, place = Path(folder, "found.json"), Path(folder, "empty")
        place.mkdir()
        done = subprocess.run(
            [sys.executable, "-P", "-m", program, str(file), *arguments],
            cwd=place, env=environment(path), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", check=False, timeout=GUARD,
        )  # fmt: skip
        if not file.is_file():
            said = (done.stderr or done.stdout).strip().splitlines()
            raise BrokenError(
                f"the process that tries it ends with {done.returncode}: {said[-1] if said else 'nothing said'}"
            )
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found
