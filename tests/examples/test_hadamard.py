"""examples/peirce-hadamard, installed for real beside Peirce, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "peirce-hadamard"
GUIDE = HERE.parents[1] / "docs" / "guide" / "write-a-plugin" / "index.md"
PLUGIN = "peirce-hadamard:hadamard"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the distribution, built as a wheel."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder)]
    command = [sys.executable, "-m", "pip", "install", *options, str(EXAMPLE)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return folder


def python(
    *arguments: str, path: Path | None, folder: Path, registry: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python in `folder`, with `path` on the import path and only the given registry.toml in sight."""
    variables = {
        k: v for k, v in os.environ.items() if not k.startswith(("PEIRCE_", "PYTHONPATH", "PYTEST_"))
    }
    variables |= {"OMP_NUM_THREADS": "1", "COLUMNS": "200", "XDG_CACHE_HOME": str(folder / "cache")}
    if path is not None:
        variables["PYTHONPATH"] = str(path)
    if registry is not None:
        variables["PEIRCE_REGISTRY"] = str(registry)
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.fixture(scope="module")
def used(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of the model that `hadamard_in_use.py` saved, and what the script saw."""
    folder = tmp_path_factory.mktemp("used")
    done = python(
        str(HERE / "hadamard_in_use.py"), str(folder / "model"), path=installed, folder=folder, registry=None
    )
    assert done.returncode == 0, done.stderr
    return folder / "model", json.loads(done.stdout.splitlines()[-1])


def test_it_composes_beside_built_in_parts_and_trains(used: tuple[Path, dict[str, Any]]) -> None:
    _, seen = used
    names = [f"network.layers.{n}.operators.4.hadamard" for n in (0, 1)]
    maps = [
        f"{name}.{role}.{leaf}"
        for name in names
        for role in ("kernel", "premise", "output")
        for leaf in ("bias", "weight")
    ]
    assert seen["own"] == sorted([*maps, "network.input.positions.1.table.weight"])
    # The last relations reach no property, so in the last layer nothing of them reaches the loss.
    assert set(seen["moved"]) >= {name for name in seen["own"] if "layers.1" not in name}
    assert seen["losses"][-1] < 0.1 * seen["losses"][0]


def test_it_is_fused_like_any_other(used: tuple[Path, dict[str, Any]]) -> None:
    _, seen = used
    assert seen["fused_apart"] < 1e-12


def test_it_is_saved_and_loaded_with_its_provenance(used: tuple[Path, dict[str, Any]]) -> None:
    folder, seen = used
    assert seen["same"]
    origin = {"plugin": PLUGIN, "distribution": "peirce-hadamard", "version": "0.1.0"}
    assert seen["provenance"] == {"operators.hadamard": origin, "positions.depth": origin}
    assert json.loads((folder / "provenance.json").read_text())["parts"]["positions.depth"] == origin


LOAD = """
import sys, peirce
try:
    peirce.load(sys.argv[1])
except peirce.ModelFileError as error:
    print(error)
"""


def test_without_it_the_saved_model_says_what_to_install(
    used: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    done = python("-c", LOAD, str(used[0]), path=None, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for part in ("operators.hadamard", "positions.depth"):
        assert f"{part} from peirce-hadamard 0.1.0 ({PLUGIN})" in done.stdout
    assert "Install the distributions named" in done.stdout


def test_switched_off_it_is_named_too(
    installed: Path, used: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    registry = tmp_path / "registry.toml"
    registry.write_text(f'format = 1\n[plugins]\n"{PLUGIN}" = "off"\n')
    done = python("-c", LOAD, str(used[0]), path=installed, folder=tmp_path, registry=registry)
    assert done.returncode == 0, done.stderr
    assert f"peirce-hadamard 0.1.0 ({PLUGIN})" in done.stdout
    assert "peirce plugins enable" in done.stdout


@pytest.mark.thorough
def test_its_own_tests_pass(installed: Path, tmp_path: Path) -> None:
    options = ["-p", "no:cacheprovider", "-c", str(EXAMPLE / "pyproject.toml"), "--peirce-strict", "-q"]
    done = python("-m", "pytest", *options, str(EXAMPLE / "tests"), path=installed, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    count = re.compile(r"^\d+ checks ran on 2 parts$", re.M)
    assert count.search(done.stdout), done.stdout
    assert count.search(GUIDE.read_text(encoding="utf-8"))
    assert "onnx[operators.hadamard]" not in done.stdout.partition("not run")[2]
