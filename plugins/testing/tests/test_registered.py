"""The checks of what plug-ins register beside parts find flaws, and nothing in what has none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import peirce
from peirce.registry import Registered, Registry
from peirce_testing import BrokenError, Case
from peirce_testing.checks import CHECKS
from peirce_testing.conformance import commands_of
from peirce_testing.new.part import NewPart
from peirce_testing.stub_parts import with_stub_parts

Change = tuple[str, str]
"""What stands in the source, and what stands there in its place."""


def changed(text: str, changes: tuple[Change, ...]) -> str:
    """A source after changes, each of something that stands in it once."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


COMMANDS = {
    "right": (),
    "prints-at-import": (("COMMAND_EXAMPLES =", 'print("1.0")\nCOMMAND_EXAMPLES ='),),
    "is-a-number": (("def new_part(", "new_part = 3\n\n\ndef other("),),
    "has-no-help": (('"--json", help="Print one JSON object."', '"--json"'),),
    "gives-a-list": (('{"schema": "new-part/1", "parts": sources}', "[]"),),
    "fails": (("    if json:", "    if not json:\n        raise typer.Exit(3)\n    if json:"),),
}
PIPELINE = '''
import peirce
from peirce_export import Field, Pipeline


class Echo(Pipeline):
    """Says the question."""

    question = (Field(name="text", kind="text", meaning="A text."),)
    answer = (Field(name="said", kind="text", meaning="The same."),)

    @classmethod
    def answers(cls, signature, assets, generates):
        return "echo.txt" in assets

    def __init__(self, folder, model):
        self.count = len(model.signature.inputs)

    def example(self):
        return {"text": "yes"}

    def ask(self, question, say):
        say({"said": question["text"]})


@peirce.hookimpl
def register_pipelines():
    return {"echo": f"{__name__}:Echo"}
'''
RUNTIME = '''
import peirce
from peirce.errors import ModelFileError
from peirce_export import Runtime


class Never(Runtime):
    """Opens no file."""

    def open(self, path, providers, threads):
        raise ModelFileError(f"{path} cannot be opened")

    def verify(self, *arguments):
        raise NotImplementedError


@peirce.hookimpl
def register_runtimes():
    return {".never": f"{__name__}:Never"}
'''
ANNOUNCED: dict[str, tuple[str, str, dict[str, tuple[Change, ...]]]] = {
    "pipelines": (
        PIPELINE, "echo",
        {
            "right": (),
            "needs-torch": (("from peirce_export", "import torch\nfrom peirce_export"),),
            "answers-everything": (('return "echo.txt" in assets', "return True"),),
            "has-no-meaning": (('meaning="A text."', 'meaning=""'),),
        },
    ),
    "runtimes": (
        RUNTIME, "never",
        {
            "right": (),
            "raises": (("raise ModelFileError(", "raise KeyError("),),
            "opens": (("raise ModelFileError", "return ModelFileError"),),
        },
    ),
}  # fmt: skip
IMPORTED = [(kind, name) for kind, (_, _, flaws) in ANNOUNCED.items() for name in flaws]


def rejections(entry: Registered, registry: Registry) -> list[str]:
    """The checks that something registered fails."""
    failed = []
    for check in CHECKS:
        if check.applies(entry.kind, entry.part):
            try:
                check.run(Case(entry, registry))
            except BrokenError:
                failed.append(check.name)
    return failed


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Writes a module that can be imported, and gives its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(name: str, text: str) -> str:
        module = f"flawed_{name.replace('-', '_')}"
        (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
        return module

    return write


@pytest.mark.parametrize(("kind", "name"), IMPORTED)
def test_what_is_registered_beside_parts_is_checked(
    kind: str, name: str, importable: Callable[[str, str], str]
) -> None:
    text, called, flaws = ANNOUNCED[kind]
    registry = Registry.of(importable(f"{kind}-{name}", changed(text, flaws[name])))
    expected = [] if name == "right" else [kind.removesuffix("s")]
    assert rejections(registry.entry(kind, called), registry) == expected


def test_a_ready_spec_has_the_name_of_its_file(tmp_path: Path) -> None:
    module = ModuleType("flawed_specs")
    vars(module)["register_specs"] = peirce.hookimpl(lambda: [tmp_path])
    spec = 'format = 1\n[model]\nname = "NAME"\narchitecture = "stub"\ninput = { vocabulary = 9 }\n'
    dims = "dims = { layers = 1, unary = 4, binary = 2, heads = 2, head_size = 2 }\n"
    for file, name in (("right", "right"), ("wrong", "another")):
        (tmp_path / f"{file}.toml").write_text(spec.replace("NAME", name) + dims)
    registry = with_stub_parts(Registry.of(module))
    failed = {entry.name: rejections(entry, registry) for entry in registry.entries("specs")}
    assert failed == {"right": [], "wrong": ["ready_spec"]}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_are_checked(name: str, tmp_path: Path, importable: Callable[[str, str], str]) -> None:
    text = changed(NewPart("command", "new_part").code, COMMANDS[name])
    target = f"{importable(f'command-{name}', text)}:new_part"
    hook = "import peirce\n\n\n@peirce.hookimpl\ndef register_specs():\n    return []\n"
    plugin = importable(f"plugin-{name}", hook)
    info = tmp_path / "greetings-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\nSummary: Greet.\n")
    points = ["[peirce.plugins]", f"own = {plugin}", "[peirce.commands]", f"new-part = {target}"]
    (info / "entry_points.txt").write_text("\n".join(points))
    registry = Registry.of("greetings:own")
    (entry,) = commands_of(registry.plugins)
    assert rejections(entry, registry) == ([] if name == "right" else ["command"])
