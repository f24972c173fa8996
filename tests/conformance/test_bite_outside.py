"""Wrong commands, parsers, pipelines and modules are rejected by the check about their flaw; right ones pass all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import peirce
import pytest
from peirce.registry import Registry
from peirce.testing.beside import beside
from peirce.testing.check import BrokenError, Case, NotApplicableError
from peirce.testing.checks import CHECKS
from wrong import answering, parsing
from wrong.commands import RIGHT, WRONG, named
from wrong.modules import AT_IMPORT, IN_THE_HOOK, source

COMMANDS = [check for check in CHECKS if "commands" in check.kinds]
(IMPORTING,) = (check for check in CHECKS if "plugins" in check.kinds)
PLUGIN = "import peirce\n\n\n@peirce.hookimpl\ndef register_commands():\n    return {}\n"
Said = Callable[[str], dict[str, str]]


def said_by(registry: Registry, kind: str) -> Said:
    """What the checks of a kind say of each thing of that kind, by name."""
    entries = {entry.name: entry for entry in beside(registry, registry.plugins) if entry.kind == kind}

    def said(name: str) -> dict[str, str]:
        found = {}
        for check in CHECKS:
            if check.applies(entries[name]):
                try:
                    check.run(Case(entries[name], registry))
                except BrokenError as error:
                    found[check.name] = str(error)
                except NotApplicableError:
                    continue
        return found

    return said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that everything is imported from."""
    path = tmp_path_factory.mktemp("outside")
    sys.path.insert(0, str(path))
    yield path
    sys.path.remove(str(path))


@pytest.fixture(scope="module")
def of_commands(folder: Path) -> Said:
    """One distribution announces them all."""
    sources = {"greet": RIGHT, **{wrong.name: wrong.source for wrong in WRONG}}
    for name, text in sources.items():
        (folder / f"greeting_{name}.py").write_text(text, encoding="utf-8")
    (folder / "greetings.py").write_text(PLUGIN, encoding="utf-8")
    info = folder / "greetings-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\nSummary: Greet somebody.\n"
    )
    targets = {
        name: f"greeting_{name}:{'app' if 'app = ' in text else 'greet'}" for name, text in sources.items()
    }
    lines = [f"{name} = {target}" for name, target in targets.items()]
    (info / "entry_points.txt").write_text(
        "\n".join(["[peirce.plugins]", "own = greetings", "[peirce.commands]", *lines])
    )
    return said_by(Registry.of("greetings:own"), "commands")


@pytest.fixture(scope="module")
def of_pipelines(folder: Path) -> Said:
    """Each in a module of its own."""
    targets = {name: f"answering_{name.replace('-', '_')}:Echoes" for name in ("right", *answering.FLAWS)}
    for name, target in targets.items():
        (folder / target.replace(":Echoes", ".py")).write_text(answering.source(name), encoding="utf-8")
    return said_by(announcing("pipelines", targets), "pipelines")


@pytest.fixture(scope="module")
def of_parsers() -> Said:
    """All of one module."""
    targets = {each.name: f"{each.__module__}:{each.__name__}" for each in (parsing.RIGHT, *parsing.WRONG)}
    return said_by(announcing("parsers", targets), "parsers")


def announcing(kind: str, targets: dict[str, str]) -> Registry:
    """A registry with a plug-in that announces classes."""
    return Registry.of(SimpleNamespace(**{f"register_{kind}": peirce.hookimpl(lambda: targets)}))


@pytest.fixture(scope="module")
def of_modules(folder: Path) -> Said:
    """All in one registry, each with an operator of its own name."""
    names = ["right", *AT_IMPORT, *IN_THE_HOOK]
    for name in names:
        (folder / f"module_{name}.py").write_text(source(name), encoding="utf-8")
    return said_by(_announced(names), "plugins")


def _announced(names: list[str]) -> Registry:
    """A registry that was told of modules without importing them here."""
    from peirce.registry import Plugin

    registry = Registry.of()
    registry.plugins = tuple(Plugin(name=name, module=f"module_{name}") for name in names)
    return registry


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_command_is_rejected(wrong: object, of_commands: Said) -> None:
    assert wrong.check in of_commands(wrong.name)  # type: ignore[attr-defined]


def test_a_right_command_passes(of_commands: Said) -> None:
    assert named(RIGHT, "greet") == RIGHT
    assert of_commands("greet") == {}


@pytest.mark.parametrize("name", answering.FLAWS)
def test_a_wrong_pipeline_is_rejected(name: str, of_pipelines: Said) -> None:
    assert list(of_pipelines(name)) == ["pipeline"]


def test_a_right_pipeline_passes(of_pipelines: Said) -> None:
    assert of_pipelines("right") == {}


@pytest.mark.parametrize("wrong", parsing.WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_parser_is_rejected(wrong: type[parsing.Halves], of_parsers: Said) -> None:
    assert list(of_parsers(wrong.name)) == [parsing.WRONG[wrong]]


def test_a_right_parser_passes(of_parsers: Said) -> None:
    assert of_parsers(parsing.RIGHT.name) == {}


@pytest.mark.parametrize("name", [*AT_IMPORT, *IN_THE_HOOK])
def test_a_module_that_changes_the_process_is_rejected(name: str, of_modules: Said) -> None:
    assert list(of_modules(name)) == [IMPORTING.name]


def test_a_right_module_passes(of_modules: Said) -> None:
    assert of_modules("right") == {}
