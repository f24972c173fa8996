"""A registry that knows the toy task beside the built-in parts, for the library and for the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import toy_tasks

import peirce
from peirce.registry import VARIABLE, Registry, default_registry


@pytest.fixture(scope="session")
def parts() -> Registry:
    families = ("peirce_basics", "peirce_folnet", "peirce_kg")
    return Registry.of(*(f"{family}.plugin" for family in families if find_spec(family)), toy_tasks)


@pytest.fixture(scope="session")
def registry_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("registry") / "registry.toml"
    path.write_text('format = 1\nmodules = ["toy_tasks"]\n')
    return path


@pytest.fixture
def toy_registry(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """The default registry of this process has the toy task."""
    monkeypatch.setenv(VARIABLE, str(registry_file))
    default_registry.cache_clear()
    yield peirce.default_registry()
    default_registry.cache_clear()


@pytest.fixture(scope="session")
def peirce_command(registry_file: Path) -> Callable[..., Any]:
    """The real command in a process of its own, with one thread."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        support = str(Path(toy_tasks.__file__).parent)
        own = {"PYTHONPATH": support, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
        return subprocess.run(
            [sys.executable, "-m", "peirce", "--registry", str(registry_file), *map(str, arguments)],
            env={**os.environ, **own, **environment},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return run
