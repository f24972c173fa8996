"""What a release is made of: sdist and wheel, built twice to the same bytes, and installed where nothing else is.

`tox -e release` runs this; `tox -e release -- python3.12 python3.13` also installs the wheel for other interpreters.
Each build is of a copy of the tree, with other times and permissions, and the wheel is built from the sdist once more.
An installed Peirce trains nothing: it composes a model, exports it, verifies it, and runs the file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = "onnx"
SMALL = """
format = 1
[model]
name = "small"
architecture = "transformer"
dims = { layers = 1, unary = 8, heads = 2 }
input = { vocabulary = 20 }
"""
TRIED = (
    ("-m", "peirce", "--version"),
    ("-c", "import peirce; peirce.build('small.toml', seed=0).save('small')"),
    ("-m", "peirce", "export", "small", "-o", "small/model.onnx"),
    ("-m", "peirce", "bench", "small/model.onnx", "--alone", "--repeats", "1"),
)
"""What is tried of an installed Peirce, in an empty folder."""


class ReleaseError(Exception):
    """What was built or installed is not what a release may be."""


def main(interpreters: Sequence[str]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        first, second = (
            built(copied(folder / each, mode), folder / each / "dist")
            for each, mode in (("one", 0o644), ("two", 0o600))
        )
        sdist, wheel = sorted(first, key=lambda path: path.suffix == ".whl")
        shutil.unpack_archive(sdist, folder / "three", filter="data")
        (unpacked,) = (folder / "three").iterdir()
        again = built(unpacked, folder / "three" / "dist", "wheel")
        for path in (*second, *again):
            if path.read_bytes() != (sdist.parent / path.name).read_bytes():
                raise ReleaseError(f"{path.name} has other bytes when it is built again")
        print(f"{sdist.name} and {wheel.name} are the same bytes, built twice and from the sdist")
        for interpreter in interpreters or [sys.executable]:
            print(f"{interpreter}: {installed(wheel, interpreter, folder / 'installed')}")


def copied(folder: Path, mode: int) -> Path:
    """A copy of what an sdist holds, with other times and permissions."""
    include = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for name in (*include, "pyproject.toml", "README.md", "LICENSE"):
        target = folder / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target)
    for path in (folder / "tree").rglob("*"):
        if path.is_file():
            path.chmod(mode)
            os.utime(path, (mode, mode))
    return folder / "tree"


def built(tree: Path, target: Path, *kinds: str) -> list[Path]:
    """What hatchling builds of a tree."""
    chosen = [part for kind in kinds or ("sdist", "wheel") for part in ("-t", kind)]
    run(sys.executable, "-m", "hatchling", "build", *chosen, "-d", str(target), cwd=tree)
    return sorted(target.iterdir())


def installed(wheel: Path, interpreter: str, folder: Path) -> str:
    """What an installed Peirce says of its version, when all that is tried works."""
    run(interpreter, "-m", "venv", str(folder), cwd=wheel.parent)
    python = str(folder / "bin" / "python")
    run(python, "-m", "pip", "install", "-q", f"{wheel}[{EXTRAS}]", cwd=folder)
    (folder / "small.toml").write_text(SMALL, encoding="utf-8")
    said = [run(python, "-P", *arguments, cwd=folder) for arguments in TRIED]
    shutil.rmtree(folder)
    return said[0]


def run(*command: str, cwd: Path) -> str:
    """What a command prints.

    Raises:
        ReleaseError: it fails.
    """
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout.strip()


if __name__ == "__main__":
    main(sys.argv[1:])
