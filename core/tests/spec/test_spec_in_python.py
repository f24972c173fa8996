"""A spec in Python: parts' classes stand for their names, their own options for tables, and type checkers know both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from peirce import Spec
from peirce.compose import resolve
from peirce.errors import SpecError
from peirce.registry import KINDS, Registry
from peirce.spec import HeadSpec, InputSpec, LayerSpec, OperatorSpec, OperatorsSpec, PartSpec
from peirce_basics.heads.linear import Classification
from peirce_folnet.architectures.folnet import FolNet
from peirce_folnet.operators.assoc import Assoc
from peirce_folnet.operators.bool import Bool
from peirce_folnet.operators.cjoin import CJoin
from peirce_folnet.operators.join import Join
from peirce_folnet.positions.distance import Distance
from peirce_testing.options import example_options

TOML = """
format = 1
[model]
name = "small"
architecture = "folnet"
dims = { layers = 2, unary = 32, binary = 8, heads = 2, head_size = 16 }
options = { wiring = "parallel" }
input = { vocabulary = 100 }
operators = { layer = [{ use = "join" }, { use = "assoc" }], options = { join = {} } }
positions = [{ use = "distance", clip = 8 }]
heads = [{ use = "classification", as = "kind", classes = 3 }]
"""


def spec(**changes: Any) -> Spec:
    given: dict[str, Any] = {
        "name": "small",
        "architecture": FolNet,
        "dims": FolNet.Dims(layers=2, unary=32, binary=8, heads=2, head_size=16),
        "options": FolNet.Options(wiring="parallel"),
        "input": InputSpec(vocabulary=100),
        "operators": OperatorsSpec(
            layer=(OperatorSpec(use=Join), OperatorSpec(use=Assoc)), options={"join": Join.Options()}
        ),
        "positions": [PartSpec(use=Distance, options=Distance.Options(clip=8))],
        "heads": [HeadSpec(use=Classification, as_="kind", options=Classification.Options(classes=3))],
    }
    return Spec(**{**given, **changes})


def test_it_equals_the_spec_of_the_same_toml(registry: Registry) -> None:
    made, read = spec(), Spec.from_toml(TOML)
    assert made == read
    assert made.to_toml() == read.to_toml()
    assert Spec.from_toml(made.to_toml()) == made
    assert hash(made) == hash(read)
    assert resolve(made, registry).positions[0].options == Distance.Options(clip=8)


def test_the_options_of_every_registered_part_survive(registry: Registry) -> None:
    parts = [entry.part for kind in KINDS for entry in registry.entries(kind)]
    assert len(parts) > 40
    for part in parts:
        try:
            options = example_options(part)
        except Exception:  # such as of a task, whose example names files
            continue
        held = PartSpec(use=part.name, options=options).options
        again = Spec.from_toml(spec(options=options).to_toml()).options
        assert again == held
        assert set(held) <= {field.name.removesuffix("_") for field in attrs.fields(part.Options)}


def test_what_toml_cannot_hold_is_refused() -> None:
    @attrs.frozen(kw_only=True)
    class Odd:
        size: int | None = 5

    assert PartSpec(use="odd", options=Odd()).options == {}
    with pytest.raises(TypeError, match="a spec contains strings, numbers"):
        PartSpec(use="odd", options=Odd(size=None))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"positions": [PartSpec(use="distance", options=Bool.Options())]},
            r"'distance' takes \w+, not \w+",
        ),
        (
            {"operators": OperatorsSpec(layer=[PartSpec(use=Join, options=Bool.Options())])},
            "'join' takes",
        ),
        ({"dims": Distance.Options()}, "'folnet' takes"),
    ],
)
def test_options_of_another_part_are_refused_though_all_are_defaults(
    changes: dict[str, Any], said: str, registry: Registry
) -> None:
    with pytest.raises(SpecError, match=said):
        resolve(spec(**changes), registry)


def test_the_operators_of_a_layer_take_both() -> None:
    layer = OperatorSpec(use=CJoin, options=CJoin.Options(premise="paper"), activation="modus_ponens")
    made = spec(operators=OperatorsSpec(layer=(layer,)))
    (table,) = made.to_toml().split("[[model.operators.layer]]")[1:]
    assert table.startswith('\nuse = "cjoin"\nactivation = "modus_ponens"\npremise = "paper"')
    assert Spec.from_toml(made.to_toml()) == made


def test_layers_that_differ_may_be_lists() -> None:
    twice = LayerSpec(layer=[OperatorSpec(use=Join), OperatorSpec(use=Assoc)], state=["bool"], repeat=2)
    made = spec(operators=OperatorsSpec(layers=[twice, LayerSpec(layer="jmc.atp")]))
    assert Spec.from_toml(made.to_toml()) == made
    assert hash(Spec.from_toml(made.to_toml())) == hash(made)


@pytest.mark.parametrize("operators", [{"layer": [PartSpec(use=Join), "assoc"]}, {"layer": [Join, Assoc]}])
def test_entries_of_lists_may_be_names_classes_and_other_tables(
    operators: dict[str, Any], registry: Registry
) -> None:
    head = PartSpec(use=Classification, options=Classification.Options(classes=3))
    made = spec(operators=OperatorsSpec(**operators, state=[Bool]), positions=[Distance], heads=[head])
    assert made.operators.layer == (OperatorSpec(use="join"), OperatorSpec(use="assoc"))
    assert made.heads == (HeadSpec(use="classification", options={"classes": 3}),)
    assert Spec.from_toml(made.to_toml()) == made
    assert [each.name for each in resolve(made, registry).state] == ["bool"]


@pytest.mark.parametrize("change", [{"positions": "distance"}, {"heads": [3]}, {"augmenters": [int]}])
def test_what_is_no_list_of_parts_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"expected a (list of )?\w+"):
        spec(**change)


RIGHT = """
from peirce import Spec
from peirce.spec import HeadSpec, LayerSpec, OperatorSpec, OperatorsSpec, PartSpec
from peirce_folnet.operators.join import Join
from peirce_basics.heads.linear import Classification
from peirce_folnet.architectures.folnet import FolNet
from peirce_folnet.positions.distance import Distance
from theirs import Scale

dims = FolNet.Dims(layers=2, unary=32, binary=8, heads=2, head_size=16)
OperatorsSpec(layers=[LayerSpec(layer=[OperatorSpec(use=Join), "assoc"], state=["bool"])])
Spec(name="a", architecture=FolNet, dims=dims, positions=[PartSpec(use=Scale, options=Scale.Options(factor=2.0))])
"""
WRONG = {
    "PartSpec(use=Distance, options=Distance.Options(clp=8))": 'Unexpected keyword argument "clp"',
    'HeadSpec(use=Classification, options=Classification.Options(classes="3"))': 'has incompatible type "str"',
    "FolNet.Dims(layers=2)": "Missing named argument",
    'FolNet.Options(wiring="paralel")': "incompatible type",
    "Scale.Options(facter=2.0)": 'Unexpected keyword argument "facter"',
    "PartSpec(use=3)": 'has incompatible type "int"',
}
THEIRS = '''
from attrs import frozen
from peirce.parts import UnaryPosition


@frozen(kw_only=True)
class ScaleOptions:
    factor: float = 1.0


class Scale(UnaryPosition):
    """A stranger's position."""

    name = "scale"
    Options = ScaleOptions
'''
SETTINGS = "[mypy]\nignore_missing_imports = true\n[mypy-torch.*,numpy.*,sympy.*]\nfollow_imports = skip\n"


@pytest.mark.thorough
def test_a_type_checker_knows_the_options_of_built_in_parts_and_of_others(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "theirs.py").write_text(THEIRS)
    (tmp_path / "settings.ini").write_text(SETTINGS)
    (tmp_path / "wrong.py").write_text(RIGHT + "".join(f"{line}\n" for line in WRONG))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mypy", "--config-file", "settings.ini", "--cache-dir", "cache", "wrong.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = [
        line.partition("error: ")[2] for line in done.stdout.splitlines() if line.startswith("wrong.py:")
    ]
    lines = [int(line.split(":")[1]) for line in done.stdout.splitlines() if line.startswith("wrong.py:")]
    first = RIGHT.count("\n") + 1
    assert min(lines) == first, done.stdout  # nothing above is wrong
    for number, (line, said) in enumerate(WRONG.items(), first):
        assert any(at == number and said in text for at, text in zip(lines, found, strict=True)), (
            line,
            done.stdout,
        )
