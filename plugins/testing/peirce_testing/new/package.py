"""Distributions of plug-ins that `peirce new` writes and adds to."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import frozen

from peirce.errors import InputError
from peirce.files import explain_disk_errors, parse_toml, read_text, scratch_folder
from peirce.resources import __version__
from peirce_testing.new.part import NewPart, fill_template

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_.][A-Za-z0-9]+)*")
_FILES = {
    "pyproject.toml": "project.toml",
    "README.md": "README.md",
    "AGENTS.md": "AGENTS.md",
    ".github/workflows/check.yml": "check.yml",
    "tests/test_parts.py": "test_parts.py",
}
"""The files of a new distribution beside those of its package, each with its template."""


@frozen
class Package:
    """A distribution with one plug-in.

    Args:
        folder: where its pyproject.toml lies.
        distribution: its name.
        module: the package that its plug-in is.
        inside: the folder of that package, from `folder`.
        new: whether it is still to be written.
    """

    folder: Path
    distribution: str
    module: str
    inside: Path
    new: bool

    @classmethod
    def at(cls, folder: Path) -> Package:
        """The distribution in a folder, or the one that is to be written there, called as the folder is.

        Raises:
            InputError: there is another kind of distribution, or the folder's name cannot name one.
        """
        if (folder / "pyproject.toml").is_file():
            return cls._read_existing(folder)
        if folder.is_file():
            raise InputError(f"{folder} is a file, where the folder of a distribution goes; name another")
        if folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir()):
            raise InputError(
                f"{folder} has files and no pyproject.toml: name the folder of a distribution, or one that is not there"
            )
        name = folder.absolute().name
        module = re.sub(r"[-_.]+", "_", name).lower()
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{name!r} cannot name a distribution; use letters and digits with '-' between, as in peirce-mine"
            )
        if (spec := find_spec(module)) is not None:
            raise InputError(
                f"a distribution {name!r} would hide the module {module!r} of "
                f"{spec.origin or 'a folder'}; choose another name"
            )
        return cls(folder, name, module, Path("src", module), True)

    @classmethod
    def _read_existing(cls, folder: Path) -> Package:
        file = folder / "pyproject.toml"
        try:
            project = parse_toml(read_text(file))["project"]
            (target,) = project["entry-points"]["peirce.plugins"].values()
        except (ValueError, KeyError, AttributeError) as error:
            raise InputError(
                f"{file} does not describe a distribution with one plug-in ({type(error).__name__}: {error}): give it "
                'one line under [project.entry-points."peirce.plugins"], or name a folder that is not there yet'
            ) from None
        for root in (Path("src"), Path()):
            inside = root.joinpath(*target.split("."))
            if (folder / inside / "__init__.py").is_file():
                return cls(folder, project["name"], target, inside, False)
        raise InputError(
            f"{file} names the plug-in {target!r}, and there is no package src/{target} below {folder}; "
            "parts are added to a plug-in that is a package"
        )

    def files(self, part: NewPart) -> tuple[dict[Path, str], dict[Path, str]]:
        """What is to be written for a part: new files, and files that are there with what is added to them.

        Raises:
            InputError: the plug-in's hook does not return a list or a dictionary as it stands there.
        """
        module, plugin = self.inside / f"{part.name}.py", self.inside / "__init__.py"
        version = __version__.partition("+")[0]
        words = {
            "new-package": self.distribution,
            "new_package": self.module,
            "new-version": version,
            "new-entry": self.distribution.lower().removeprefix("peirce-"),
            **part.words,
        }
        fresh: dict[Path, str] = {module: part.code}
        edited: dict[Path, str] = {}
        source = (
            fill_template("distribution/plugin.py", words) if self.new else read_text(self.folder / plugin)
        )
        if self.new:
            fresh |= {
                Path(name): fill_template(f"distribution/{path}", words) for name, path in _FILES.items()
            }
            fresh[self.inside / "py.typed"] = ""
        if self.new or (part.use and "def register_specs" in source):
            fresh[self.inside / "specs" / f"{part.name}.toml"] = part.spec
        changed = fresh if self.new else edited
        changed[plugin] = registered(source, part, self.folder / plugin)
        if part.kind == "command" or part.requires:
            import tomlkit

            path = Path("pyproject.toml")
            document: Any = tomlkit.parse(fresh[path] if self.new else read_text(self.folder / path))
            project = document["project"]
            if part.kind == "command":
                points = project["entry-points"].setdefault("peirce.commands", tomlkit.table())
                points[part.called] = f"{part.module}:{part.name}"
            dependencies = project.setdefault("dependencies", tomlkit.array())
            for name in part.requires:
                if not any(re.match(rf"{name}\b(?!-)", each) for each in dependencies):
                    dependencies.append(f"{name}>={version}")
            changed[path] = tomlkit.dumps(document)
        return fresh, edited


def registered(source: str, part: NewPart, path: Path) -> str:
    """The source of a plug-in whose hook returns the part as well; all else stays as it is."""
    name = f"register_{part.registered}"
    added = not re.search(rf"^def {name}\b", source, re.MULTILINE)
    if added:
        source = f"{source.rstrip()}\n\n\n{part.hook_text}"
    nodes = ast.parse(source).body
    hook = next(node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name)
    match hook.body[-1]:
        case ast.Return(value=ast.List(elts=items) | ast.Dict(values=items) as returned):
            lines = source.splitlines(keepends=True)
        case _:
            raise InputError(
                f"{name} in {path} does not end with `return` and a list or a dictionary that stands there; "
                "write it so, and run this again"
            )
    if not added:
        row, column = returned.lineno, returned.col_offset + 1
        if items:
            row, column = items[-1].end_lineno or 0, items[-1].end_col_offset or 0
        line = lines[row - 1].encode()  # columns count bytes
        joined = (", " if items else "") + part.element
        lines[row - 1] = (line[:column] + joined.encode() + line[column:]).decode()
    if isinstance(returned, ast.List):
        imports = [node for node in hook.body if isinstance(node, ast.ImportFrom)]
        later = next((node.lineno for node in imports if (node.module or "") > part.module), None)
        behind = (imports[-1].end_lineno or 0) + 1 if imports else hook.body[-1].lineno
        line_of_import = f"    from {part.module} import {part.element}\n"
        lines.insert((later or behind) - 1, line_of_import if imports else f"{line_of_import}\n")
    return "".join(lines)


def write(root: Path, fresh: Mapping[Path, str], edited: Mapping[Path, str]) -> None:
    """Write new files, and those that are edited behind them, below a folder that may be new itself: all or none.

    Raises:
        InputError: a new file is there already.
        WriteError: the disk takes no more.
    """
    if there := [root / path for path in fresh if os.path.lexists(root / path)]:
        raise InputError(
            f"{there[0]} is there already, and nothing is overwritten; move it away or choose another name"
        )
    if not root.absolute().parent.is_dir():
        raise InputError(f"folder {root.absolute().parent} does not exist; create it, or write elsewhere")
    done, new_root = list[Path](), not root.exists()
    with (
        explain_disk_errors(str(root)),
        scratch_folder(root.absolute() if new_root else root.absolute() / "new") as folder,
    ):
        staged = folder / "whole"
        for path, text in {**fresh, **edited}.items():
            (staged / path).parent.mkdir(parents=True, exist_ok=True)
            (staged / path).write_bytes(text.encode())
        if new_root:
            os.replace(staged, root)
            return
        try:
            for path in (*fresh, *edited):
                if path in edited:
                    (staged / path).chmod((root / path).stat().st_mode & 0o777)
                else:
                    missing = [parent for parent in (root / path).parents if not parent.exists()]
                    done += [root / path, *missing]
                    (root / path).parent.mkdir(parents=True, exist_ok=True)
                os.replace(staged / path, root / path)
        except BaseException:
            for path in done:
                with suppress(OSError):
                    path.rmdir() if path.is_dir() else path.unlink()
            raise
