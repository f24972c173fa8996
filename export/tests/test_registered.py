"""Runtimes and pipelines of plug-ins that are written here."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from command_line import python_prints

from peirce import hookimpl
from peirce.errors import RegistryError
from peirce.parts import Signature
from peirce.registry import Registry, class_named
from peirce_export import Pipeline, pipelines_for, runtime_class
from peirce_export.onnx.runtime import OnnxRuntime


def plugin(**hooks: Any) -> ModuleType:
    """A plug-in module whose hooks return the given values."""
    module = ModuleType("lab")
    for kind, value in hooks.items():
        setattr(module, f"register_{kind}", hookimpl(lambda value=value: value))
    return module


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        ({"runtimes": [".onnx"]}, "register_runtimes must return a mapping such as {'.onnx': "),
        ({"runtimes": {"onnx": "lab:Session"}}, "returns 'onnx': 'lab:Session'; an entry looks like '.onnx'"),
        ({"runtimes": {".onnx": "lab"}}, "returns '.onnx': 'lab'; an entry looks like"),
        ({"pipelines": {"Ask": "lab:Asks"}}, "returns 'Ask': 'lab:Asks'; an entry looks like 'ask': 'my_"),
    ],
)
def test_what_a_hook_may_not_return(hooks: dict[str, Any], said: str) -> None:
    assert said in Registry.of(plugin(**hooks)).quarantined[0].cause


def test_a_runtime_is_found_by_the_suffix() -> None:
    mine = {".plan": "peirce_export.onnx.runtime:OnnxRuntime", ".json": "json:JSONDecoder"}
    catalogue = Registry.of(plugin(runtimes=mine))
    assert runtime_class("a/model.PLAN", catalogue) is OnnxRuntime
    with pytest.raises(
        RegistryError, match=r"the runtime 'json' of module:lab, .* is not a Runtime of peirce_export"
    ):
        runtime_class("model.json", catalogue)
    with pytest.raises(RegistryError, match=r"no runtime opens .onnx files: unknown runtime 'onnx'.*Known: "):
        runtime_class("model.onnx", catalogue)


def test_a_pipeline_is_found_by_its_name() -> None:
    mine = {"ask": "peirce_kg.serving:QueryAnswers", "decode": "json:JSONDecoder", "gone": "json:Gone"}
    mine["half"] = "peirce_export:Pipeline"
    catalogue = Registry.of(plugin(pipelines=mine))
    assert class_named("pipelines", "ask", Pipeline, catalogue).__name__ == "QueryAnswers"
    for name, said in {
        "decode": r"the pipeline 'decode' of module:lab, .* is not a Pipeline of peirce_export",
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
    assert join.startswith(
        "the pipeline 'join' of module:lab, os.path:join, is not a Pipeline of peirce_export; "
    )


@pytest.mark.parametrize(
    "asked",
    [
        'peirce_export.runtime_class("model.onnx"), peirce_export.Session, peirce.Session',
        "[registry.class_named('pipelines', name, object) for name in"
        " registry.default_catalogue().names('pipelines')]",
    ],
)
def test_what_runs_and_asks_needs_no_torch(asked: str) -> None:
    program = f"import sys, peirce, peirce_export; from peirce import registry; {asked}"
    assert python_prints(f"{program}; print('torch' in sys.modules)") == "False"
