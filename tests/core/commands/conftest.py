"""The `peirce` command in processes of its own, beside distributions that were really installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Run, install, without_registry_file
from shared_folder import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
NAMES = ("good", "fails", "misspells", "takes", "twin")


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the throw-away distributions, each built as a wheel."""
    return install(tmp_path_factory.mktemp("installed"), *(FIXTURES / f"peirce-{name}" for name in NAMES))


@pytest.fixture
def peirce(distributions: Path, tmp_path: Path) -> Run:
    """Run `peirce ARGUMENTS` in an empty folder; `beside` names the throw-away distributions that are switched on."""

    def run(
        *arguments: str, beside: tuple[str, ...] | None = (), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        folder = without_registry_file(tmp_path / "work")
        folder.mkdir(exist_ok=True)
        variables = {k: v for k, v in os.environ.items() if not k.startswith("PEIRCE_")}
        variables |= {"COLUMNS": "200", "OMP_NUM_THREADS": "1"}
        variables |= {"PYTHONPATH": str(distributions)} | environment
        if (
            beside is not None
            and "PEIRCE_REGISTRY" not in environment
            and not (folder / "registry.toml").exists()
        ):
            file = tmp_path / "these.toml"
            off = [name for name in NAMES if name not in beside]
            entries = {"good": "extra", "twin": "extra"}
            lines = [f'"peirce-{name}:{entries.get(name, "parts")}" = "off"' for name in off]
            file.write_text("format = 1\n[plugins]\n" + "\n".join(lines) + "\n", encoding="utf-8")
            variables["PEIRCE_REGISTRY"] = str(file)
        command = [sys.executable, "-P", "-m", "peirce", *arguments]
        return subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, text=True, timeout=600, check=False
        )

    return run
