"""Runs the tests of single distributions, each in an environment with its wheel and what it declares, nothing else.

`tox -e alone -- kg queries` tries two of them, `tox -e alone` all, one after the other; what follows the names goes to
pytest. An environment has the
distribution and its group `test` of pyproject.toml, which names what its tests need beside it; siblings come from the
wheels that were built here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import venv
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from wheels import build, install
from workspace import NAMES, ROOT, Distribution, brought, distributions

INSTALLED = "from importlib.metadata import distributions; print(*{each.name for each in distributions()})"


def try_alone(each: Distribution, constraints: Path, folder: Path, options: list[str]) -> str | None:
    """Run the tests of a distribution in an environment of its own.

    Args:
        each: the distribution.
        constraints: where its wheel and its siblings' are.
        folder: where the environment goes.
        options: more of pytest's.

    Returns:
        What is wrong; None if all is well.
    """
    venv.create(folder)
    python = str(folder / "bin" / "python")
    needed = [Requirement(each.name), *each.test_group]
    install(python, constraints, map(str, needed), "--no-compile")
    listed = subprocess.run([python, "-P", "-c", INSTALLED], check=True, capture_output=True, text=True)
    there = {name for name in listed.stdout.split() if name in NAMES}
    if undeclared := there - brought(needed, distributions()):
        return f"{', '.join(sorted(undeclared))} came with what it declares"
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHONPATH")}
    variables |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [python, "-P", "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider"]
    tests = str(each.folder.relative_to(ROOT) / "tests")
    done = subprocess.run([*command, "--durations=5", *options, tests], cwd=ROOT, env=variables, check=False)
    return f"pytest ends with {done.returncode}" if done.returncode else None


def main(arguments: list[str]) -> int:
    """Try distributions, all when none is named; 1 if one does not work alone, 2 if there is none of a name."""
    tested = {
        name.removeprefix("peirce-"): each
        for name, each in distributions().items()
        if (each.folder / "tests").is_dir()
    }
    names = [*takewhile(lambda argument: not argument.startswith("-"), arguments)]
    if unknown := sorted({*names} - {*tested}):
        print(f"no distribution {', '.join(unknown)}; there are {', '.join(tested)}")
        return 2
    failed = 0
    with TemporaryDirectory(prefix="peirce-alone-") as folder:
        constraints = build(Path(folder) / "wheels")
        for name in names or tested:
            start = time.monotonic()
            with TemporaryDirectory(dir=folder) as one:
                wrong = try_alone(tested[name], constraints, Path(one), arguments[len(names) :])
            print(f"{name}: {wrong or 'works alone'}, {time.monotonic() - start:.0f} s", flush=True)
            failed |= wrong is not None
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
