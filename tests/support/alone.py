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
    "peirce_relations": "(tasks or architectures.relational)",
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
    layers = tomllib.loads((ROOT / "layers.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (independent,) = (each for each in layers["contracts"] if each["type"] == "independence")
    sides = [re.findall(r"(\w+)[.\w]*", arrow.replace("->", " ")) for arrow in independent["ignore_imports"]]
    return sorted({to for origin, to in sides if origin == package})


def beside(package: str) -> list[str]:
    """What is installed with a package: the core, the exporter, and those that it may import."""
    return [] if package == CORE else [CORE, *([] if package == EXPORT else [EXPORT]), *arrows(package)]


def distribution(package: str) -> str:
    """The name of a package's own distribution."""
    return package.replace("_", "-")


def project_file(package: str) -> str:
    """A pyproject.toml for one package."""
    shared = ("version", "requires-python", "dependencies")
    project: dict[str, Any] = {key: PROJECT["project"][key] for key in shared}
    if package != CORE:
        project["dependencies"] = [distribution(each) for each in (CORE, *arrows(package))]
    groups = entry_points(package)
    project |= {"name": distribution(package), "scripts": groups.pop("scripts", {}), "entry-points": groups}
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


def checked(python: str, plugins: Sequence[str], folder: Path, which: str) -> str:
    """Run the conformance suite over some plug-ins, those checks whose names suit, and none that cannot run."""
    command = [python, "-P", "-m", "pytest", "--pyargs", "peirce_testing.suite", "--peirce-strict"]
    command += ["-n", str(PROCESSES), "-q", "-c", str(folder / "pytest.ini"), "-p", "no:cacheprovider"]
    command += ["-k", which]
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    said = run([*command, *(f"--peirce-plugin={plugin}" for plugin in plugins)], folder)
    found = re.search(r"^([1-9]\d*) checks ran on (\d+) parts$", said, re.M)
    if found is None:
        raise AloneError(f"no check ran on {', '.join(plugins)}:\n{said}")
    return f"{found[1]} checks on {found[2]} parts, "


def run(command: Sequence[str], folder: Path) -> str:
    """What a command prints, run in a folder without the variables that steer Peirce, pytest and imports."""
    steering = ("PEIRCE_", "PYTEST_", "PYTHONPATH")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AloneError(f"{done.stdout}{done.stderr}")
    return done.stdout


def alone(package: str, wheels: dict[str, Path], installed: Path, folder: Path) -> str:
    """Import every module of a package where no other package of Peirce is, and check its parts; what was tried."""
    folder.mkdir()
    others = beside(package)
    python = environment(folder / "environment", installed, [wheels[each] for each in (*others, package)])
    absent = [name for name in SOURCES if name not in (package, *others)]
    count = run([python, "-P", "-c", IMPORTS, package, WITHIN_SERVERS, *absent], folder).split()[-1]
    plugins = [f"{distribution(package)}:{name}" for name in entry_points(package).get("peirce.plugins", ())]
    if package == EXPORT:
        plugins.append("peirce_testing.companions")
    which = " and ".join(f"not {each}" for each in ("ready_spec", ELSEWHERE.get(package)) if each)
    said = checked(python, plugins, folder, which) if plugins else ""
    return f"{package}: {said}{count} modules imported, beside {', '.join(others) or 'nothing'}"


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
