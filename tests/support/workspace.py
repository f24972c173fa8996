"""The distributions of this repository, and what each requires, held against what its modules import.

`python tests/support/workspace.py` says what is wrong, and `tox -e layers` runs it. `--write` adds the siblings that
are imported, takes out those that are not, and raises bounds that no longer admit the version. The bound of another
project's package is a decision, so what is wrong with one is said and not written. What tests import must come with
the distribution and its group `test`, which may also name what tests use without an import.

What a sibling requires itself need not be required again: who depends on `peirce-core[torch]` may import torch. A
project file states what imports cannot show in `[tool.peirce]`: `not-imported` lists requirements that no module
imports, `not-required` imports that nothing installs, each with its reason.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = {
    "sklearn": ("scikit-learn",),
    "google.protobuf": ("protobuf",),
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu"),
    "cuda": ("cuda-bindings",),
    "grpc": ("grpcio",),
}
"""Projects that bring a package of another name."""


def normal(name: str) -> str:
    """A project's name, or a package's, as package indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class Distribution:
    """One folder with a project file."""

    folder: Path

    @cached_property
    def file(self) -> dict[str, Any]:
        """Its project file."""
        return tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))

    @property
    def name(self) -> str:
        return str(self.file["project"]["name"])

    @property
    def packages(self) -> list[str]:
        """Its import packages; none for the one that only names others."""
        return sorted(path.parent.name for path in self.folder.glob("peirce*/py.typed"))

    @cached_property
    def dependencies(self) -> list[Requirement]:
        return [Requirement(line) for line in self.file["project"].get("dependencies", ())]

    @cached_property
    def extras(self) -> dict[str, list[Requirement]]:
        table = self.file["project"].get("optional-dependencies", {})
        return {extra: [Requirement(line) for line in lines] for extra, lines in table.items()}

    @cached_property
    def test_group(self) -> list[Requirement]:
        """What its tests need beside it."""
        return [Requirement(line) for line in self.file.get("dependency-groups", {}).get("test", ())]

    @property
    def requirements(self) -> list[Requirement]:
        """What it requires, and what its extras require."""
        return [*self.dependencies, *(each for lines in self.extras.values() for each in lines)]

    def reasons(self, table: str) -> dict[str, str]:
        """`not-imported` or `not-required` of `[tool.peirce]`."""
        return {normal(name): why for name, why in self.file["tool"].get("peirce", {}).get(table, {}).items()}


def distributions(root: Path = ROOT) -> dict[str, Distribution]:
    """Every distribution of the repository, by name."""
    found = [root / "core", root / "export", *sorted((root / "plugins").iterdir()), root / "meta"]
    listed = [Distribution(folder) for folder in found if (folder / "pyproject.toml").is_file()]
    return {each.name: each for each in listed}


NAMES = frozenset(distributions())


def extras_in_messages(folder: Path) -> dict[str, Path]:
    """What messages of modules tell users to install, `extra=` of any call, each with one file that does."""
    return {
        word.value.value: path
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg == "extra" and isinstance(word.value, ast.Constant) and isinstance(word.value.value, str)
    }


def imports(folder: Path, named: bool = True, nested: bool = True) -> dict[str, Path]:
    """The packages that a module or those of a folder import, each with one file that does.

    Args:
        folder: the folder, or the module's file.
        named: whether packages count that `require` or `import_module` is called with.
        nested: whether imports inside functions count.
    """
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree) if nested else tree.body:
            if isinstance(node, ast.Call) and not named:
                continue
            for name in _imported(node):
                top = "google.protobuf" if name.startswith("google.protobuf") else name.partition(".")[0]
                if top not in sys.stdlib_module_names:
                    found.setdefault(top, path)
    return found


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [each.name for each in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
        case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(name))]):
            return [name]
        case ast.Call(func=ast.Name(id="require"), args=[_, *names]):
            return [str(each.value) for each in names if isinstance(each, ast.Constant)]
    return []


def brought(requirements: Iterable[Requirement], siblings: Mapping[str, Distribution]) -> set[str]:
    """The projects that requirements install, with what siblings require in turn."""
    found: set[str] = set()
    waiting = list(requirements)
    tried: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = normal(requirement.name)
        found.add(name)
        for extra in ("", *requirement.extras):
            if name in siblings and (name, extra) not in tried:
                tried.add((name, extra))
                sibling = siblings[name]
                waiting += sibling.extras.get(extra, []) if extra else sibling.dependencies
    return found


def admits(requirement: Requirement, version: Version) -> bool:
    """Whether pip takes a version for a requirement: `>=1.0` does not admit `1.0rc1`, and `==` is not for siblings."""
    only_lower = [each.operator for each in requirement.specifier] == [">="]
    prereleases = bool(requirement.specifier.prereleases)
    return only_lower and requirement.specifier.contains(version, prereleases=prereleases)


def problems(root: Path = ROOT) -> Iterator[str]:
    """What is wrong with the project files, a sentence each."""
    siblings = distributions(root)
    version = Version(siblings["peirce-core"].file["project"]["version"])
    owners = {package: each.name for each in siblings.values() for package in each.packages}
    bounds: dict[str, tuple[str, str]] = {}
    for each in siblings.values():
        for requirement in (*each.requirements, *each.test_group):
            name = normal(requirement.name)
            if name == each.name:
                continue
            if name in siblings:
                if not admits(requirement, version):
                    yield f"{each.name}: {requirement} does not admit {version}"
                if unknown := requirement.extras - {*siblings[name].extras}:
                    yield f"{each.name}: {name} has no extra {', '.join(sorted(unknown))}"
            elif requirement.specifier:
                other, bound = bounds.setdefault(name, (each.name, str(requirement.specifier)))
                if bound != str(requirement.specifier):
                    yield f"{each.name}: {requirement}, but {other} requires {bound}"
        if each.packages:
            yield from _of_imports(each, siblings, owners)
            yield from _of_tests(each, siblings, owners)
            yield from _of_messages(each, siblings)
        if each.name != "peirce-core" and each.file["project"].get("dynamic") != ["version"]:
            yield f"{each.name}: its version is not read from core/pyproject.toml"
    whole = siblings.get("peirce")
    if whole is not None:
        extra = [Requirement("peirce[all]")]
        for name in sorted({*siblings} - brought(extra, siblings)):
            yield f"peirce: its extra `all` does not bring {name}"


def _of_imports(
    each: Distribution, siblings: Mapping[str, Distribution], owners: Mapping[str, str]
) -> Iterator[str]:
    """What a distribution imports and does not require, and what it requires and does not import."""
    imported = imports(each.folder / each.packages[0])
    direct = {normal(requirement.name) for requirement in each.requirements}
    available = brought(each.requirements, siblings)
    not_imported, not_required = each.reasons("not-imported"), each.reasons("not-required")
    used: set[str] = set()
    for name, path in imported.items():
        projects = {owners[name]} if name in owners else {*PROJECTS.get(name, (normal(name),))}
        used |= projects
        excused = normal(name) in not_required
        if each.name in projects:
            continue
        if excused == bool(projects & (direct if name in owners else available)):
            state = "required, so that [tool.peirce] need not excuse it" if excused else "not required"
            yield f"{each.name}: {path.relative_to(each.folder)} imports {name}, which is {state}"
    in_tests = {normal(name) for name in imports(each.folder / "tests")}
    for name in sorted(not_required.keys() - {normal(name) for name in imported} - in_tests):
        yield f"{each.name}: [tool.peirce] excuses the import of {name}, which no module imports"
    for name in sorted(direct - {each.name}):
        if (name in used) == (name in not_imported):
            why = "which [tool.peirce] calls not imported" if name in used else "which no module imports"
            yield f"{each.name}: requires {name}, {why}"


def _of_messages(each: Distribution, siblings: Mapping[str, Distribution]) -> Iterator[str]:
    """What a distribution tells users to install, which is not there."""
    for extra, path in extras_in_messages(each.folder / each.packages[0]).items():
        asked = Requirement(extra if "[" in extra else f"peirce[{extra}]")
        of = siblings.get(asked.name)
        if of is None or asked.extras - {*of.extras}:
            yield f"{each.name}: a message of {path.relative_to(each.folder)} names {asked}, which does not exist"


def _of_tests(
    each: Distribution, siblings: Mapping[str, Distribution], owners: Mapping[str, str]
) -> Iterator[str]:
    """What the tests of a distribution import, with the helpers of all tests, and nothing brings."""
    available = brought([Requirement(each.name), *each.test_group], siblings)
    own = {path.stem for path in (each.folder / "tests").rglob("*.py")}
    own |= {path.name for path in (each.folder / "tests").rglob("*") if path.is_dir()}
    imported = imports(each.folder / "tests", named=False)
    waiting = [*imported]
    while waiting:
        helper = ROOT / "tests" / "support" / f"{waiting.pop()}.py"
        for name, path in imports(helper, nested=False).items() if helper.is_file() else ():
            if name not in imported:
                imported[name] = path
                waiting.append(name)
    helpers = {path.stem for path in (ROOT / "tests" / "support").glob("*.py")}
    for name in sorted({*imported} - own - helpers):
        projects = {owners[name]} if name in owners else {*PROJECTS.get(name, (normal(name),))}
        if not projects & available and normal(name) not in each.reasons("not-required"):
            where = f"{imported[name].name} of its tests"
            yield f"{each.name}: {where} imports {name}, which its group `test` does not bring"


def write(root: Path = ROOT) -> None:
    """Write what follows from imports and the version: the siblings of each distribution, and their bounds."""
    import tomlkit

    siblings = distributions(root)
    version = Version(siblings["peirce-core"].file["project"]["version"])
    owners = {package: each.name for each in siblings.values() for package in each.packages}
    for each in siblings.values():
        path = each.folder / "pyproject.toml"
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
        project: Any = document["project"]
        lists = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
        lists.append(document.get("dependency-groups", {}).get("test", []))
        for lines in lists:
            for index, line in enumerate(list(lines)):
                requirement = Requirement(line)
                if (
                    normal(requirement.name) in {*siblings} - {each.name}
                    and requirement.specifier
                    and not admits(requirement, version)
                ):
                    lines[index] = f"{str(requirement).removesuffix(str(requirement.specifier))}>={version}"
        if each.packages:
            imported = imports(each.folder / each.packages[0])
            excused = each.reasons("not-required")
            used = {owners[name] for name in imported if name in owners and normal(name) not in excused}
            declared = {normal(requirement.name) for requirement in each.requirements}
            for name in sorted(used - declared - {each.name}):
                project["dependencies"].append(f"{name}>={version}")
            unused = {*siblings} - used - {each.name, *each.reasons("not-imported")}
            for lines in lists[:-1]:
                for line in [line for line in lines if normal(Requirement(line).name) in unused]:
                    lines.remove(line)
        path.write_text(tomlkit.dumps(document), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Say what is wrong, after writing what can be written if asked to; 1 if something is."""
    if arguments not in ([], ["--write"]):
        print("workspace.py takes --write or nothing")
        return 2
    if arguments:
        write()
    found = list(problems())
    print("\n".join(found) or f"{len(NAMES)} distributions require what they import")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
