"""Templates of parts: modules in `templates` that are each whole but for the hook that registers what they define.

In a template `new_part` stands for the name that a user gives. The conformance suite runs over what they give, and
tests hold their methods to the contracts. Lines of a spec that use a part are those of its module's docstring.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from textwrap import dedent

from attrs import define

from peirce.errors import InputError

TEMPLATES = Path(__file__).parent / "templates"
KINDS = tuple(sorted(path.stem.replace("_", "-") for path in TEMPLATES.glob("*.py")))
"""The kinds of which there is a template, as `peirce new` takes them."""
_RETURNED = {
    "operators": "list[type[peirce.parts.Part]]",
    "positions": "list[type[peirce.parts.Position]]",
    "augmenters": "list[type[peirce.parts.Augmenter]]",
    "heads": "list[type[peirce.parts.Head]]",
    "architectures": "list[type[peirce.parts.Architecture]]",
    "tasks": "list[type[peirce.model.AnyTask]]",
    "exporters": "list[type[peirce.model.Exporter]]",
    "experiments": "list[peirce_training.experiments.Experiment]",
    "parsers": "dict[str, str]",
    "commands": "dict[str, str]",
}
"""What the hook of each registered kind returns."""


def fill_template(path: str, words: Mapping[str, str]) -> str:
    """A template with its words replaced."""
    text = (TEMPLATES / path).read_text(encoding="utf-8")
    for word, name in words.items():
        text = text.replace(word, name)
    return text


@define(slots=False)
class NewPart:
    """A part to be written.

    Args:
        kind: one of `KINDS`.
        name: a module's name, from which those of the class and the part follow.
        package: the package that its module lies in; empty for a module of its own.
    """

    kind: str
    name: str
    package: str = ""

    @property
    def hyphenated(self) -> bool:
        """Whether its name has hyphens where its module's has underscores."""
        return self.kind in ("command", "parser")

    @property
    def called(self) -> str:
        """The name that it is registered by."""
        return self.name.replace("_", "-") if self.hyphenated else self.name

    @property
    def module(self) -> str:
        """The full name of its module."""
        return f"{self.package}.{self.name}" if self.package else self.name

    @property
    def registered(self) -> str:
        """The kind that it is registered as, such as `positions`; the hook is `register_KIND`."""
        return f"{self.kind.rpartition('-')[2]}s"

    @property
    def words(self) -> dict[str, str]:
        """What stands in templates for its names."""
        return {
            "NewPart": "".join(word[:1].upper() + word[1:] for word in self.name.split("_")),
            "NEW_PART": self.name.upper(),
            "new-part": self.called,
            "new_part": self.name,
            "new-kind": self.kind.replace("-", " "),
        }

    @cached_property
    def code(self) -> str:
        """The module without its hook, which a package has in one place.

        Raises:
            InputError: a name that the template's code uses would be hidden by the part's.
        """
        path = f"{self.kind.replace('-', '_')}.py"
        text = fill_template(path, self.words)
        with suppress(SyntaxError):  # such as `class None`
            if len(_identifiers(text)) == len(_identifiers(fill_template(path, {}))):
                return text
        raise InputError(
            f"{self.name!r} is a name that the code of a {self.words['new-kind']} uses itself; choose another, "
            f"such as my_{self.name}"
        )

    @property
    def requires(self) -> list[str]:
        """The distributions of Peirce, beside its core, that the module imports."""
        modules: set[str] = set()
        for node in ast.walk(ast.parse(self.code)):
            if isinstance(node, ast.ImportFrom):
                modules.add((node.module or "").partition(".")[0])
        return sorted(name.replace("_", "-") for name in modules if name.startswith("peirce_"))

    @property
    def element(self) -> str:
        """What the hook returns of it: an element of a list, or of a dictionary."""
        variable = self.words["NEW_PART" if self.kind == "experiment" else "NewPart"]
        if self.kind == "command":
            (function,) = (node for node in ast.parse(self.code).body if isinstance(node, ast.FunctionDef))
            return f'"{self.called}": "{ast.get_docstring(function)}"'
        return f'"{self.called}": "{self.module}:{variable}"' if self.kind == "parser" else variable

    @property
    def hook_text(self) -> str:
        """The hook, marked."""
        returned = _RETURNED[self.registered]
        shown = f"{{{self.element}}}" if returned.startswith("dict") else f"[{self.element}]"
        return (
            f"@peirce.hookimpl\ndef register_{self.registered}() -> {returned}:\n"
            f'    """The {self.registered} that this plug-in adds."""\n    return {shown}\n'
        )

    @property
    def text(self) -> str:
        """A module of the part and its hook."""
        code = self.code
        if "\nimport peirce\n" not in code:  # before what the template imports of other distributions
            code = re.sub(
                r"^(?=import torch|from (attrs|peirce))", "import peirce\n", code, count=1, flags=re.M
            )
        return f"{code}\n\n{self.hook_text}"

    @property
    def use(self) -> str:
        """The lines of a spec that use it, from the module's docstring; empty where specs do not name such parts."""
        lines = (ast.get_docstring(ast.parse(self.code)) or "").splitlines()
        shown = dedent("\n".join(line for line in lines if line.startswith("    ") or not line)).strip()
        return shown + "\n" if shown.startswith("[") else ""

    @property
    def spec(self) -> str:
        """A small spec that uses it; of a kind that no spec names, a spec to try it on."""
        if "architecture" in tomllib.loads(self.use).get("model", {}):
            about = f"# A small model with the {self.words['new-kind']} {self.called}."
            return f"{about}\nformat = 1\n\n{self.use}"
        return f"{fill_template('distribution/spec.toml', self.words)}\n{self.use}".rstrip() + "\n"


def _identifiers(text: str) -> set[str]:
    """The names that a module binds or reads."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
    return found
