"""Ready specs and lines of help from plug-ins that are written here."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from command_line import python_prints

from peirce import hookimpl
from peirce.errors import SpecError
from peirce.registry import Registry, load_spec, ready_specs
from peirce.registry.kinds import ANNOUNCED, all_kinds

SPEC = """\
# A small one.
[model]
name = "small"
architecture = "folnet"
[model.dims]
layers = 1
"""


def plugin(name: str = "lab", **hooks: Any) -> ModuleType:
    """A plug-in module whose hooks return the given values."""
    module = ModuleType(name)
    for kind, value in hooks.items():
        setattr(module, f"register_{kind}", hookimpl(lambda value=value: value))
    return module


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    folder = tmp_path / "specs"
    folder.mkdir()
    (folder / "small.toml").write_text(SPEC)
    (folder / "smaller.toml").write_text('extend = "small"\nmodel.name = "smaller"\n')
    (folder / "README.md").write_text("no spec")
    return folder


def test_specs_of_a_folder_and_of_single_files_go_by_their_names(specs: Path, tmp_path: Path) -> None:
    (tmp_path / "single.toml").write_text(SPEC)
    catalogue = Registry.of(plugin(specs=[specs, tmp_path / "single.toml"]))
    assert catalogue.names("specs") == ("single", "small", "smaller")
    assert ready_specs(catalogue)["small"] == specs / "small.toml"
    assert catalogue.entry("specs", "small").plugin == "module:lab"
    registry = Registry.of(plugin(specs=[specs]))
    assert load_spec("smaller", {"model.dims.layers": 3}, registry).dims["layers"] == 3


def test_a_ready_spec_is_extended_by_name_and_mistakes_are_placed(specs: Path, tmp_path: Path) -> None:
    catalogue = Registry.of(plugin(specs=[specs]))
    mine = tmp_path / "mine.toml"
    mine.write_text('extend = "smaller"\n[model]\nname = ""\n')
    with pytest.raises(SpecError, match=r"mine.toml:3: model.name must not be empty"):
        load_spec(mine, registry=catalogue)
    mine.write_text('\nextend = "smallest"\n')
    with pytest.raises(SpecError, match=r"unknown ready spec 'smallest'(.|\n)*extended at .*mine.toml:2"):
        load_spec(mine, registry=catalogue)
    (specs / "small.toml").write_text(SPEC.replace("layers = 1", "layers == 1"))
    with pytest.raises(SpecError, match=r"small.toml:6.*not valid TOML(.|\n)*extended at .*smaller.toml:1"):
        load_spec("smaller", registry=catalogue)


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        ({"specs": "specs"}, "register_specs must return a list of paths, not 'specs'"),
        ({"specs": ["specs"]}, "returns 'specs', which is neither a .toml file nor a folder of .toml files"),
        ({"specs": [Path(__file__).parent]}, "which is neither a .toml file nor a folder of .toml files"),
        ({"commands": ["greet"]}, "register_commands must return a mapping such as {'greet': "),
        ({"commands": {"greet": None}}, "returns 'greet': None; an entry looks like"),
        ({"commands": {"greet": "Two\nlines."}}, "an entry looks like 'greet': 'Greet somebody.'"),
    ],
)
def test_what_a_hook_may_not_return(hooks: dict[str, Any], said: str, specs: Path) -> None:
    for kinds in (all_kinds(), ANNOUNCED):
        found = Registry.of(plugin("broken", **{"specs": [specs]} | hooks), kinds=kinds)
        assert said in found.quarantined[0].cause
        assert found.entries("specs") == ()


@pytest.mark.parametrize(
    ("asked", "absent"),
    [
        ('registry.load_spec("folnet-base")', ["torch"]),
        ("registry.load_spec(PATH)", ["torch", "peirce_kg", "peirce_basics"]),
    ],
)
def test_what_is_asked_for_imports_no_more_than_it_needs(asked: str, absent: list[str], specs: Path) -> None:
    program = f"import sys; from peirce import registry; PATH = {str(specs / 'small.toml')!r}; {asked}"
    assert python_prints(f"{program}; print([name for name in {absent!r} if name in sys.modules])") == "[]"
