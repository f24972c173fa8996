"""What a release is made of: an sdist and a wheel of each distribution, the same bytes twice, and wheels that install.

`tox -e release` runs this; `tox -e release -- python3.12 python3.13` installs for other interpreters instead. Each
build is of a copy of the tree, with other times and permissions, and each wheel is built from its sdist once more. An
installed Peirce trains nothing: it composes a model, exports it, verifies it, and runs the file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from wheels import CONSTRAINTS, install, write_constraints
from workspace import ROOT, distributions

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
        first = build(copy_tree(folder / "one", 0o644), folder / "dist")
        second = build(copy_tree(folder / "two", 0o600), folder / "again")
        third = build_from_sdists(first, folder / "three")
        for path in (*second, *third):
            if path.read_bytes() != (folder / "dist" / path.name).read_bytes():
                raise ReleaseError(f"{path.name} has other bytes when it is built again")
        check_sdists(first)
        print(f"{len(first)} sdists and wheels are the same bytes, built twice and from the sdists")
        wheels = folder / "wheels"
        wheels.mkdir()
        for path in first:
            if path.suffix == ".whl":
                shutil.copy(path, wheels)
        write_constraints(wheels)
        for interpreter in interpreters or [sys.executable]:
            print(f"{interpreter}: {try_installed(wheels, interpreter, folder / 'installed')}")


def copy_tree(folder: Path, mode: int) -> Path:
    """A copy of the distributions' folders, with other times and permissions."""
    for each in distributions().values():
        target = folder / each.folder.relative_to(ROOT)
        shutil.copytree(each.folder, target, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)
            os.utime(path, (mode, mode))
    return folder


def build(tree: Path, target: Path) -> list[Path]:
    """The sdist and the wheel of each distribution in a copy of the tree."""
    for each in distributions().values():
        command = (
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "-t",
            "sdist",
            "-t",
            "wheel",
            "-d",
            str(target),
        )
        run(*command, cwd=tree / each.folder.relative_to(ROOT))
    return sorted(target.iterdir())


def build_from_sdists(built: Sequence[Path], folder: Path) -> list[Path]:
    """A wheel of each sdist, unpacked where there is no repository around it."""
    for path in built:
        if path.suffix != ".whl":
            unpacked = folder / path.name
            shutil.unpack_archive(path, unpacked, filter="data")
            (tree,) = unpacked.iterdir()
            run(
                sys.executable,
                "-m",
                "hatchling",
                "build",
                "-t",
                "wheel",
                "-d",
                str(folder / "dist"),
                cwd=tree,
            )
    return sorted((folder / "dist").iterdir())


def check_sdists(built: Sequence[Path]) -> None:
    """Refuse links in sdists, which lead out of them.

    Raises:
        ReleaseError: there is one.
    """
    for path in built:
        if path.suffix != ".whl":
            with tarfile.open(path) as archive:
                if links := [member.name for member in archive if not (member.isfile() or member.isdir())]:
                    raise ReleaseError(f"{path.name} has links: {', '.join(links)}")


def try_installed(wheels: Path, interpreter: str, folder: Path) -> str:
    """What an installed Peirce says of its version, when all that is tried works."""
    run(interpreter, "-m", "venv", str(folder), cwd=wheels)
    python = str(folder / "bin" / "python")
    install(python, wheels / CONSTRAINTS, ["peirce"])
    (folder / "small.toml").write_text(SMALL, encoding="utf-8")
    printed = [run(python, "-P", *arguments, cwd=folder) for arguments in TRIED]
    shutil.rmtree(folder)
    return printed[0]


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
