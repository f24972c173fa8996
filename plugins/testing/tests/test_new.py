"""`peirce new`: every kind is written, registers, and keeps the contract that its template was made for."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import pytest
from command_line import Run, exit_code

from peirce import model, parts
from peirce.compose import build
from peirce.errors import InputError
from peirce.parts import PLACES
from peirce.registry import KINDS as PARTS
from peirce.registry import Registry, load_spec
from peirce.spec import Spec
from peirce_testing import Conformance
from peirce_testing.new import package as new_package
from peirce_testing.new.part import KINDS, NewPart
from peirce_testing.new.spec import spec_of

CONTRACTS = {
    "operator": parts.Operator,
    "fused-operator": parts.Operator,
    "state-operator": parts.StateOperator,
    "recurrent-operator": parts.RecurrentOperator,
    **{f"{place}-position": base for place, base in PLACES.items()},
    "augmenter": parts.Augmenter,
    "head": parts.Head,
    "architecture": parts.Architecture,
    "task": model.Task,
    "exporter": model.Exporter,
}
OTHERS = {"command", "experiment", "parser"}
"""Kinds whose classes are made of no contract of core, or of one that has further bases."""


def module_of(kind: str, name: str) -> ModuleType:
    """What `peirce new` writes, as a module."""
    module = sys.modules[name] = ModuleType(name)  # attrs looks up annotations there
    exec(compile(NewPart(kind, name).text, f"{name}.py", "exec"), module.__dict__)
    return module


def test_every_kind_of_part_and_every_place_has_a_template() -> None:
    assert {*CONTRACTS} | OTHERS == {*KINDS}
    hooks = {NewPart(kind, "some_part").registered for kind in KINDS}
    assert hooks == {*PARTS, "commands", "experiments", "parsers"}


@pytest.mark.parametrize("kind", CONTRACTS)
def test_methods_have_the_signatures_of_the_contract(kind: str) -> None:
    module = module_of(kind, f"signed_{kind.replace('-', '_')}")
    contract: Any = CONTRACTS[kind]
    (part,) = (
        each
        for each in vars(module).values()
        if inspect.isclass(each) and each.__module__ == module.__name__ and issubclass(each, contract)
    )
    own = {name for name in vars(part) if callable(getattr(part, name)) and not name.startswith("_")}
    own -= {"Options", "Dims"}
    declared = {name for base in contract.__mro__ for name in vars(base)}
    assert contract.__abstractmethods__ - {"__init__"} <= own <= declared | {"_drawn"}
    for name in own:
        theirs, ours = (inspect.signature(getattr(cls, name)) for cls in (contract, part))
        if any(p.kind is p.VAR_POSITIONAL for p in theirs.parameters.values()):
            continue  # the author names the channels
        assert [(p.name, p.kind) for p in ours.parameters.values()] == [
            (p.name, p.kind) for p in theirs.parameters.values()
        ]
        if name in contract.__abstractmethods__ and kind != "task":  # whose data are of a type of its own
            hints = {k: v for k, v in _hints(contract, name).items() if v is not Any}
            assert {k: v for k, v in _hints(part, name).items() if k in hints} == hints


def _hints(cls: Any, name: str) -> dict[str, Any]:
    """The annotations of a method that are there when it runs."""
    method = inspect.unwrap(inspect.getattr_static(cls, name))
    method = getattr(method, "__func__", method)
    space = {**vars(model), **vars(sys.modules["peirce.model.contracts"]), **method.__globals__}
    space |= {"Model": model.Model}
    found = get_type_hints(method, globalns=space, localns={"Any": Any})
    return {k: v for k, v in found.items() if k not in ("options", "dims")}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "command"])
def test_one_file_registers_its_part(kind: str, peirce: Run) -> None:
    name = f"single_{kind.replace('-', '_')}"
    done = peirce("new", kind, name, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["written"] == [f"{name}.py"]
    text = Path(f"{name}.py").read_text(encoding="utf-8")
    assert not any(word in text.lower() for word in ("todo", "new_part", "newpart", "new-part"))
    part = NewPart(kind, name)
    registry = Registry.of(module_of(kind, name))
    assert registry.quarantined == ()
    assert part.called in registry.names(part.registered)
    again = peirce("new", kind, name)
    assert again.returncode == 2
    assert f"{name}.py is there already" in again.stderr


@pytest.mark.parametrize(
    ("kind", "quick"),
    [
        ("operator", True),
        *(
            pytest.param(kind, False, marks=pytest.mark.thorough)
            for kind in KINDS
            if kind not in ("command", "parser")  # their checks import a module by its name
        ),
    ],
)
def test_one_file_passes_the_conformance_suite(kind: str, quick: bool) -> None:
    module = module_of(kind, f"{'quick' if quick else 'conforming'}_{kind.replace('-', '_')}")
    found = Conformance(module, quick=quick).run()
    assert [each.message for each in found if each.outcome == "failed"] == []
    assert any(each.outcome == "passed" for each in found)


def test_an_operator_with_a_kernel_is_written_and_checked(peirce: Run) -> None:
    assert peirce("new", "operator", "with_kernel", "--kernel").returncode == 0
    assert "def fused(" in Path("with_kernel.py").read_text(encoding="utf-8")
    refused = peirce("new", "head", "with_kernel", "--kernel")
    assert "--kernel is for `peirce new operator`, and not for a head" in refused.stderr


def test_a_distribution_takes_parts_of_every_kind(peirce: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in KINDS:
        done = peirce("new", kind, f"own_{kind.replace('-', '_')}", "--package", "peirce-toolbox")
        assert done.returncode == 0, done.stderr
    home = Path("peirce-toolbox")
    for file in ("README.md", "AGENTS.md", ".github/workflows/check.yml", "tests/test_parts.py"):
        assert "new-" not in (home / file).read_text(encoding="utf-8")
    project = tomllib.loads((home / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"] == {
        "peirce.plugins": {"toolbox": "peirce_toolbox"},
        "peirce.commands": {"own-command": "peirce_toolbox.own_command:own_command"},
    }
    required = [each.partition(">=")[0] for each in project["dependencies"]]
    assert required == ["peirce-core[torch]", "peirce-training", "peirce-export", "peirce-logic"]
    monkeypatch.syspath_prepend(str(home / "src"))
    registry = Registry.of("peirce_toolbox", "peirce_folnet.plugin", "peirce_basics.plugin")
    assert registry.quarantined == ()
    for kind in KINDS:
        part = NewPart(kind, f"own_{kind.replace('-', '_')}")
        assert part.called in registry.names(part.registered)
    specs = [entry for entry in registry.entries("specs") if entry.name.startswith("own_")]
    assert len(specs) == 13
    for entry in specs:
        spec = load_spec(entry.part)
        assert spec.name == entry.name
        text = entry.part.read_text(encoding="utf-8")
        assert entry.name == "own_task" or text.count(entry.name) > 1
        build(
            spec if spec.input.vocabulary else spec.replace({"model.input.vocabulary": 9}), registry=registry
        )
    ran = subprocess.run(
        [sys.executable, "-m", "compileall", "-q", str(home)], capture_output=True, check=False
    )
    assert ran.returncode == 0


PLUGIN = '''"""Mine."""


@peirce.hookimpl
def register_operators():
    """Ä."""
    return [
        A,  # ä
        B,
    ]
'''


def test_what_stands_in_a_plugin_stays(tmp_path: Path) -> None:
    part = NewPart("operator", "conjoin", "mine")
    found = new_package.registered(PLUGIN, part, tmp_path)
    assert "    from mine.conjoin import Conjoin\n\n    return [\n" in found
    assert (
        found.replace("    from mine.conjoin import Conjoin\n\n", "").replace("B, Conjoin,", "B,") == PLUGIN
    )
    elsewhere = PLUGIN.partition("    return")[0] + "    return PARTS\n"
    with pytest.raises(InputError, match="does not end with `return`"):
        new_package.registered(elsewhere, part, tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("operater", "conjoin"), "Did you mean 'operator'"),
        (("operator", "join"), "operators has 'join' already, of peirce-folnet:folnet"),
        (("operator", "Con-Join"), "try con_join"),
        (("operator", "class"), "not a Python keyword"),
        (("operator", "json"), "would hide the module 'json'"),
        (("operator", "tensor"), "uses itself; choose another, such as my_tensor"),
        (("operator", "none"), "uses itself; choose another, such as my_none"),
        (("command", "greet"), "--package peirce-greet"),
        (
            ("command", "train", "--package", "peirce-mine"),
            "commands has 'train' already, of peirce-training",
        ),
        (("head", "mine", "--architecture", "folnet"), "leave it out"),
        (("head", "mine", "--package", "numpy"), "would hide the module 'numpy'"),
        (("head", "mine", "--package", "-"), "cannot name a distribution"),
        (("head", "mine", "--package", __file__), "is a file, where the folder of a distribution goes"),
        (("head", "mine", "--package", "a/b"), "does not exist; create it"),
        (("spec", "mine"), "a spec needs an architecture: --architecture NAME, one of"),
        (("spec", "mine", "--architecture", "folnett"), "Did you mean 'folnet'"),
        (("spec", "mine.toml", "--architecture", "folnet"), "without .toml"),
    ],
)
def test_what_cannot_be_written_is_refused_with_the_next_step(
    words: tuple[str, ...], message: str, peirce: Run
) -> None:
    done = peirce("new", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert list(Path().iterdir()) == []


def test_a_folder_of_other_files_becomes_no_distribution(peirce: Run) -> None:
    Path("data").mkdir()
    Path("data/table.csv").write_text("a\n")
    done = peirce("new", "head", "mine", "--package", "data")
    assert done.returncode == 2
    assert "has files and no pyproject.toml" in done.stderr


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "old.py").write_text("old")
    moves = []

    def fails(source: Any, target: Any) -> None:
        moves.append(target)
        if len(moves) == 2:
            raise OSError("no")
        os.rename(source, target)

    monkeypatch.setattr(new_package.os, "replace", fails)
    with pytest.raises(OSError, match="no"):
        new_package.write(tmp_path / "there", {Path("a/new.py"): "x"}, {Path("old.py"): "changed"})
    assert [path.name for path in (tmp_path / "there").rglob("*")] == ["old.py"]
    assert (tmp_path / "there" / "old.py").read_text() == "old"


def test_a_commented_spec_of_every_architecture_is_a_model(registry: Registry) -> None:
    for name in registry.names("architectures"):
        text = spec_of("begun", name, registry)
        assert text.startswith("#:schema peirce.schema.json\n# begun: ")
        spec = Spec.from_toml(text)
        assert spec.architecture == name
        if not name.startswith("pretrained"):  # whose weights are somebody's files
            build(spec, registry=registry)


def test_heads_that_an_architecture_cannot_feed_are_not_offered(registry: Registry) -> None:
    offered = {
        name: spec_of("begun", name, registry).partition("# Heads to add")[2]
        for name in ("transformer", "folnet")
    }
    assert [", relation, " in " ".join(text.split("\n# ")) for text in offered.values()] == [False, True]


def test_a_spec_may_join_a_distribution(peirce: Run) -> None:
    assert peirce("new", "head", "stars", "--package", "peirce-stars").returncode == 0
    done = peirce("new", "spec", "deeper", "--architecture", "folnet", "--package", "peirce-stars")
    assert done.returncode == 0, done.stderr
    assert Path("peirce-stars/src/peirce_stars/specs/deeper.toml").is_file()
    assert peirce("spec", "check", "peirce-stars/src/peirce_stars/specs/deeper.toml").returncode == 0


@pytest.mark.parametrize(("typed", "offered"), [("peirce ne", "new"), ("peirce new oper", "operator")])
def test_a_shell_completes_commands_and_kinds(
    typed: str, offered: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = str(len(typed.split()) - 1)
    asked = {"_PEIRCE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": count}
    for key, value in asked.items():
        monkeypatch.setenv(key, value)
    assert exit_code() == 0
    assert capsys.readouterr().out.split() == [offered]


@pytest.mark.thorough
def test_a_distribution_passes_its_own_tests(tmp_path: Path) -> None:
    variables = {
        k: v for k, v in os.environ.items() if not k.startswith(("PEIRCE_", "PYTHONPATH", "PYTEST_"))
    }
    variables |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(tmp_path / "site")}

    def run(*words: str, folder: Path = tmp_path) -> None:
        done = subprocess.run(
            [sys.executable, "-P", "-m", *words],
            cwd=folder, env=variables, capture_output=True, text=True, timeout=3000, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    home = tmp_path / "peirce-toolbox"
    for kind in KINDS:
        run("peirce", "new", kind, f"own_{kind.replace('-', '_')}", "--package", "peirce-toolbox")
    install = ("-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(tmp_path / "site"))
    run("pip", "install", *install, str(home))
    run("pytest", "-q", "-p", "no:cacheprovider", folder=home)
    run("peirce", "plugins", "check", "peirce-toolbox", "-k", "declaration or command or parser")
