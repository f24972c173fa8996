"""Each package of plugins/ as a wheel of its own, beside a core without the others: proof that none leans on another.

`tox -e alone` runs this, and `tox -e alone -- peirce_kg` does one package. Each is built from a project file of its
own, with its entry points from pyproject.toml, and installed beside the core and the exporter, which the checks of
exported files need. There every module of it is imported, and the conformance suite runs over its plug-in. Ready specs
and some tasks compose parts of other packages by name, so they are left to the whole registry. A package that announces
no plug-in, as the core does, is imported only. Dependencies are those of the environment that runs this.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomlkit

ROOT = Path(__file__).resolve().parents[2]
CORE, EXPORT = "peirce", "peirce_export"
PROCESSES = 2
"""How many share the checks of one package."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SOURCES = {
    Path(path).name: ROOT / path for path in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
}
"""Every package of the wheel that ships, with its folder."""

ELSEWHERE = {
    **dict.fromkeys(("peirce_text", "peirce_logic"), "tasks"),
    "peirce_basics": "transformer",
    "peirce_tpru": "(tasks or operators.tpru)",
    EXPORT: "exporters.tensorrt",
}
"""By package, checks that run elsewhere: tasks that train heads of other packages, which they name and never import;
what is composed with operators or networks of other packages, as a transformer is; and what needs TensorRT.
"""

WITHIN_SERVERS = "peirce_export.triton.backend"
"""The module that only Triton's Python backend can import."""

IMPORTS = """
import importlib.util, pkgutil, sys

own, within_servers, *absent = sys.argv[1:]
for name in absent:
    assert importlib.util.find_spec(name) is None, f"{name} can be imported"
package = importlib.import_module(own)
assert package.__file__.startswith(sys.prefix), f"{own} is {package.__file__}, not what was installed"
found = (module.name for module in pkgutil.walk_packages(package.__path__, own + "."))
passed_over = ("__main__", within_servers)
modules, broken = [own, *(name for name in found if not name.endswith(passed_over))], []
for name in modules:
    try:
        importlib.import_module(name)
    except Exception as error:
        broken.append(f"{name} cannot be imported: {type(error).__name__}: {error}")
sys.exit("; ".join(broken)) if broken else print(len(modules))
"""


class AloneError(Exception):
    """A package does not work alone; the message is what the command printed."""


def entry_points(package: str) -> dict[str, dict[str, str]]:
    """What pyproject.toml announces of a package, by group; `scripts` are a group like any other."""
    groups = {"scripts": PROJECT["project"]["scripts"], **PROJECT["project"]["entry-points"]}
    own = {
        group: {name: value for name, value in entries.items() if re.split("[.:]", value)[0] == package}
        for group, entries in groups.items()
    }
    return {group: entries for group, entries in own.items() if entries}


def arrows(package: str) -> list[str]:
    """The other packages that one may import, as layers.toml declares them; an arrow that is not there is refused."""
    contracts = tomllib.loads((ROOT / "layers.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (independent,) = (contract for contract in contracts if contract["type"] == "independence")
    declared = (
        [side.strip().split(".")[0] for side in arrow.split("->")] for arrow in independent["ignore_imports"]
    )
    return sorted({to for origin, to in declared if origin == package})


def beside(package: str) -> list[str]:
    """What is installed with a package: the core, the exporter, and those that it may import."""
    return [] if package == CORE else [CORE, *([] if package == EXPORT else [EXPORT]), *arrows(package)]


def distribution(package: str) -> str:
    """The name of a package's own distribution."""
    return package.replace("_", "-")


def project_file(package: str) -> str:
    """A pyproject.toml for one package."""
    whole = PROJECT["project"]
    shared = (
        ("version", "requires-python") if package != CORE else ("version", "requires-python", "dependencies")
    )
    groups = entry_points(package)
    project: dict[str, Any] = {"name": distribution(package), **{key: whole[key] for key in shared}}
    if package != CORE:
        project["dependencies"] = [distribution(each) for each in (CORE, *arrows(package))]
    project["scripts"] = groups.pop("scripts", {})
    project["entry-points"] = groups
    target = {"hatch": {"build": {"targets": {"wheel": {"packages": [package]}}}}}
    return tomlkit.dumps({"build-system": PROJECT["build-system"], "project": project, "tool": target})


def build(package: str, folder: Path) -> Path:
    """Build a package's wheel in a folder."""
    source = folder / f"source-{package}"
    shutil.copytree(SOURCES[package], source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for origin, target in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].items():
        if Path(target).parts[0] == package:
            copy = shutil.copytree if (ROOT / origin).is_dir() else shutil.copyfile
            copy(ROOT / origin, source / target)
    (source / "pyproject.toml").write_text(project_file(package), encoding="utf-8")
    out = folder / f"wheel-{package}"
    run([sys.executable, "-P", "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)], source)
    (wheel,) = out.glob("*.whl")
    return wheel


def dependencies(folder: Path) -> Path:
    """A folder with a link to everything that is installed here, but what is of Peirce."""
    folder.mkdir()
    for place in map(Path, sys.path):
        if place.is_dir() and any(place.glob("*.dist-info")):
            for path in place.iterdir():
                if not re.match("_?peirce", path.name) and not (folder / path.name).exists():
                    (folder / path.name).symlink_to(path)
    return folder


def environment(folder: Path, installed: Path, wheels: Iterable[Path]) -> str:
    """A virtual environment with dependencies and wheels; its interpreter."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip()
    (Path(site) / "dependencies.pth").write_text(f"{installed}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    run([*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", *map(str, wheels)], folder)
    return str(python)


def imported(python: str, package: str, folder: Path) -> int:
    """Import every module of a package where no other package of Peirce is; how many there are.

    Raises:
        AloneError: one cannot be imported, or another package can.
    """
    absent = [name for name in SOURCES if name not in (package, *beside(package))]
    return int(run([python, "-P", "-c", IMPORTS, package, WITHIN_SERVERS, *absent], folder).split()[-1])


def checked(python: str, plugins: Sequence[str], folder: Path, which: str) -> tuple[int, int]:
    """Run the conformance suite over some plug-ins, those checks whose names suit: how many ran, and on how many parts.

    Raises:
        AloneError: a check failed or could not run, or none ran.
    """
    command = [python, "-P", "-m", "pytest", "--pyargs", "peirce.testing.suite", "--peirce-strict"]
    command += ["-n", str(PROCESSES), "-q", "-c", str(folder / "pytest.ini"), "-p", "no:cacheprovider"]
    command += ["-k", which]
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    said = run([*command, *(f"--peirce-plugin={plugin}" for plugin in plugins)], folder)
    found = re.search(r"^(\d+) checks ran on (\d+) parts$", said, re.M)
    if found is None or found[1] == "0":
        raise AloneError(f"no check ran on {', '.join(plugins)}:\n{said}")
    return int(found[1]), int(found[2])


def run(command: Sequence[str], folder: Path) -> str:
    """What a command prints, run in a folder without the variables that steer Peirce, pytest and imports.

    Raises:
        AloneError: it fails.
    """
    steering = ("PEIRCE_", "PYTEST_", "PYTHONPATH")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AloneError(f"{done.stdout}{done.stderr}")
    return done.stdout


def alone(package: str, wheels: dict[str, Path], installed: Path, folder: Path) -> str:
    """Try one package; a line that says what was tried.

    Raises:
        AloneError: it does not work.
    """
    folder.mkdir()
    others = beside(package)
    python = environment(folder / "environment", installed, [wheels[each] for each in (*others, package)])
    said = f"{imported(python, package, folder)} modules imported"
    plugins = [f"{distribution(package)}:{name}" for name in entry_points(package).get("peirce.plugins", ())]
    if package == EXPORT:
        plugins.append("peirce.testing.companions")
    if plugins:
        which = " and ".join(f"not {each}" for each in ("ready_spec", ELSEWHERE.get(package)) if each)
        said = "{} checks on {} parts, ".format(*checked(python, plugins, folder, which)) + said
    return f"{package}: {said}, beside {', '.join(others) or 'nothing'}"


def main(packages: Sequence[str]) -> int:
    """Try packages, all when none is named; 1 if one does not work alone."""
    unknown = sorted({*packages} - {*SOURCES})
    if unknown:
        print(f"no package {', '.join(unknown)}; there are {', '.join(SOURCES)}")
        return 2
    chosen, failed = packages or tuple(SOURCES), 0
    with TemporaryDirectory(prefix="peirce-alone-") as name:
        folder = Path(name)
        installed = dependencies(folder / "dependencies")
        needed = {each for package in chosen for each in (package, *beside(package))}
        wheels = {package: build(package, folder) for package in SOURCES if package in needed}
        for package in chosen:
            try:
                print(alone(package, wheels, installed, folder / package), flush=True)
            except AloneError as error:
                failed = 1
                print(f"{package}: FAILED\n{error}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
