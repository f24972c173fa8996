"""The page on serving: its blocks run, and with a server its client gets an answer."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from code_blocks import run_page
from shared_folder import ROOT
from triton_server import INSTALLED, serving


@pytest.mark.thorough
@pytest.mark.skipif(
    find_spec("tritonclient") is None,
    reason="tritonclient is not installed: pip install 'peirce-export[triton]'",
)
def test_every_block_runs_and_the_client_is_answered(tmp_path: Path) -> None:
    page, server = tmp_path / "page", tmp_path / "server"
    page.mkdir()
    server.mkdir()
    assert run_page(ROOT / "export" / "docs" / "serving.md", page) == 6
    if INSTALLED:
        arguments = ("--model-control-mode=explicit", "--load-model=weather")
        with serving(page / "repository", server, *arguments) as found:
            command = [sys.executable, str(page / "client.py"), found.grpc]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
        assert done.stdout.strip() == "(1, 3)"
