"""Builds every distribution as a wheel and installs some of them with what their tests need, as `tox` does.

`wheels.py REQUIREMENT...` installs requirements such as `peirce[all]`, and `--tests` also what the tests of the whole
repository need. Wheels go to a folder of the environment. A file of constraints beside them names each by its path, so
that pip takes no other project of the same name from an index.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from workspace import NAMES, ROOT, distributions

CONSTRAINTS = "siblings.txt"


def build(folder: Path) -> Path:
    """Build a wheel of every distribution into a new folder; hatchling must be installed. The file of constraints."""
    shutil.rmtree(folder, ignore_errors=True)
    sources = [str(each.folder) for each in distributions().values()]
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), *sources)
    return write_constraints(folder)


def write_constraints(folder: Path) -> Path:
    """Write the file that names each wheel of a folder, which is absolute, by its path."""
    lines = [f"{path.name.partition('-')[0]} @ {path.as_uri()}\n" for path in sorted(folder.glob("*.whl"))]
    constraints = folder / CONSTRAINTS
    constraints.write_text("".join(lines), encoding="utf-8")
    return constraints


def install(python: str, constraints: Path, requirements: Iterable[str], *options: str) -> None:
    """Install requirements from the wheels in place of what is installed of them; other projects as pinned.

    Args:
        python: the environment's interpreter.
        constraints: what `build` returned.
        requirements: of distributions of the repository and of other projects.
        options: more of pip's.
    """
    pins = [] if os.environ.get("PIP_CONSTRAINT") else ["-c", str(ROOT / "constraints.txt")]
    pip(python, "uninstall", "--yes", *sorted(NAMES))
    pip(python, "install", *pins, "-c", str(constraints), *options, *requirements)


def pip(python: str, *arguments: str) -> None:
    """Run pip for an environment, without its reports.

    Raises:
        SystemExit: it fails.
    """
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", python]
    done = subprocess.run([*command, *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"pip {' '.join(arguments)}:\n{done.stdout}{done.stderr}")


def test_requirements() -> list[str]:
    """What the tests of all distributions need."""
    return sorted({str(each) for one in distributions().values() for each in one.test_group})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("requirements", nargs="+", metavar="REQUIREMENT")
    parser.add_argument("--tests", action="store_true", help="also what the tests need")
    options = parser.parse_args()
    needed = [*options.requirements, *(test_requirements() if options.tests else ())]
    install(sys.executable, build(Path(sys.prefix) / "wheels"), needed)


if __name__ == "__main__":
    main()
