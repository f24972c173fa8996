"""Ready specs, runtimes and lines of help from plug-ins that are written here."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from command_line import python_prints

from peirce import hookimpl
from peirce.errors import RegistryError, SpecError
from peirce.model import Pipeline
from peirce.parts import Signature
from peirce.registry import (
    Registry,
    class_named,
    load_spec,
    pipelines_for,
    ready_specs,
    runtime_of,
)
from peirce.registry.kinds import ANNOUNCED, all_kinds
from peirce_export.onnx.runtime import OnnxRuntime

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
        ({"specs": ["specs"]}, "returns 'specs', which is neither a .toml file nor a folder of such"),
        ({"specs": [Path(__file__).parent]}, "which is neither a .toml file nor a folder of such"),
        ({"runtimes": [".onnx"]}, "register_runtimes must return a mapping such as {'.onnx': "),
        ({"runtimes": {"onnx": "lab:Session"}}, "returns 'onnx': 'lab:Session'; one looks like '.onnx'"),
        ({"runtimes": {".onnx": "lab"}}, "returns '.onnx': 'lab'; one looks like"),
        ({"pipelines": {"Ask": "lab:Asks"}}, "returns 'Ask': 'lab:Asks'; one looks like 'ask': 'my_"),
        ({"commands": {"greet": None}}, "returns 'greet': None; one looks like"),
        ({"commands": {"greet": "Two\nlines."}}, "one looks like 'greet': 'Greet somebody.'"),
    ],
)
def test_what_a_hook_may_not_return(hooks: dict[str, Any], said: str, specs: Path) -> None:
    for kinds in (all_kinds(), ANNOUNCED):
        found = Registry.of(plugin("broken", **{"specs": [specs]} | hooks), kinds=kinds)
        assert said in found.quarantined[0].cause
        assert found.entries("specs") == ()


def test_a_runtime_is_found_by_the_suffix() -> None:
    mine = {".plan": "peirce_export.onnx.runtime:OnnxRuntime", ".json": "json:JSONDecoder"}
    catalogue = Registry.of(plugin(runtimes=mine))
    assert runtime_of("a/model.PLAN", catalogue) is OnnxRuntime
    with pytest.raises(
        RegistryError, match=r"the runtime of .json files of module:lab, .* is no Runtime of peirce"
    ):
        runtime_of("model.json", catalogue)
    with pytest.raises(RegistryError, match=r"no runtime opens .onnx files: unknown runtime 'onnx'.*Known: "):
        runtime_of("model.onnx", catalogue)


def test_a_pipeline_is_found_by_its_name() -> None:
    mine = {"ask": "peirce_kg.serving:QueryAnswers", "decode": "json:JSONDecoder", "gone": "json:Gone"}
    mine["half"] = "peirce.model:Pipeline"
    catalogue = Registry.of(plugin(pipelines=mine))
    assert class_named("pipelines", "ask", Pipeline, catalogue).__name__ == "QueryAnswers"
    for name, said in {
        "decode": r"the pipeline 'decode' of module:lab, .* is no Pipeline of peirce",
        "gone": r"'gone' of module:lab, json:Gone, cannot be imported",
        "half": r"'half' of .* does not define __init__, answers, ask, example; ",
        "asks": r"unknown pipeline 'asks'. Did you mean 'ask'",
    }.items():
        with pytest.raises(RegistryError, match=said):
            class_named("pipelines", name, Pipeline, catalogue)


class Fails(Pipeline):
    __init__ = example = ask = answers = None  # type: ignore[assignment]


def test_a_pipeline_that_fails_is_named_and_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    mine = {"ask": "peirce_kg.serving:QueryAnswers", "join": "os.path:join", "fails": f"{__name__}:Fails"}
    catalogue = Registry.of(plugin(pipelines=mine))
    found = pipelines_for(Signature((), ()), {"vocabulary.json", "triples.npz"}, False, catalogue)
    assert list(found) == ["ask"]
    fails, join = (record.getMessage() for record in caplog.records)
    assert fails.startswith("the pipeline 'fails' of module:lab fails: TypeError: 'NoneType' object is not ")
    assert join.startswith("the pipeline 'join' of module:lab, os.path:join, is no Pipeline of peirce; ")


@pytest.mark.parametrize(
    ("asked", "absent"),
    [
        ('registry.load_spec("tega"), registry.runtime_of("model.onnx")', ["torch"]),
        ("registry.load_spec(PATH)", ["torch", "peirce_kg", "peirce_basics"]),
        (
            "assert len(registry.Registry.discover(kinds=('experiments',)).entries('experiments')) > 10",
            ["torch"],
        ),
        (
            "[registry.class_named('pipelines', name, object) for name in"
            " registry.default_catalogue().names('pipelines')]",
            ["torch"],
        ),
    ],
)
def test_what_is_asked_for_imports_no_more_than_it_needs(asked: str, absent: list[str], specs: Path) -> None:
    program = f"import sys; from peirce import registry; PATH = {str(specs / 'small.toml')!r}; {asked}"
    assert python_prints(f"{program}; print([name for name in {absent!r} if name in sys.modules])") == "[]"
