"""examples/peirce-averages, installed for real beside Peirce: its own tests, conformance among them, pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from shared_folder import ROOT

EXAMPLE = ROOT / "examples" / "peirce-averages"


@pytest.mark.thorough
def test_its_own_tests_pass(tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    options = ["-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(installed)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(EXAMPLE)], check=True, timeout=600)
    settings = ["-p", "no:cacheprovider", "-c", str(EXAMPLE / "pyproject.toml"), "--peirce-strict", "-q"]
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("PEIRCE_", "PYTEST_"))
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *settings, str(EXAMPLE / "tests")],
        cwd=tmp_path, env=variables | {"PYTHONPATH": str(installed)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ checks ran on 4 parts$", done.stdout, re.M), done.stdout
