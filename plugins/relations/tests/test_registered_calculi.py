"""A calculus of somebody else's package goes through the door that RCC-8 and Allen's intervals go through."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from peirce import hookimpl
from peirce.errors import InputError, RegistryError
from peirce.registry import Registry
from peirce_relations.calculi import RelationAlgebra, algebra_of_model, broken_laws, calculus

PLUGIN = """
import numpy as np
import peirce
from peirce_relations.calculi import algebra_of_model

def points():
    x = np.arange(3)
    return algebra_of_model("points", ("<", "=", ">"), np.sign(x[:, None] - x) + 1, "=", decided_by_closure=True)

@peirce.hookimpl
def register_calculi():
    return {"points": "points_lab:points"}
"""


def wrong() -> RelationAlgebra:
    """Points of a line, of which < and < may also compose to =."""
    place = np.arange(3)
    algebra = algebra_of_model("wrong", ("<", "=", ">"), np.sign(place[:, None] - place) + 1, "=")
    table = algebra.composition.copy()
    table[0, 0, 1] = True
    return RelationAlgebra("wrong", algebra.relations, algebra.converse, table, algebra.identity)


def nothing() -> None:
    """No algebra at all."""


def test_a_calculus_of_a_plugin_makes_problems_and_solves_them(tmp_path: Path) -> None:
    (tmp_path / "points_lab.py").write_text(PLUGIN)
    (tmp_path / "registry.toml").write_text('format = 1\nmodules = ["points_lab"]\n')
    command = [sys.executable, "-m", "peirce", "--registry", str(tmp_path / "registry.toml"), "relations"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def run(*words: str) -> str:
        asked = [*command, *words, "--algebra", "points"]
        return subprocess.run(asked, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    problems, solved = str(tmp_path / "problems.jsonl"), str(tmp_path / "solved.jsonl")
    run("generate", "-o", problems, "--problems", "40", "--steps", "2,3", "--workers", "2")
    assert json.loads(run("solve", problems, "-o", solved, "--json"))["agree"] == 40
    assert {json.loads(line)["unique"] for line in Path(solved).read_text().splitlines()} == {"<", "=", ">"}


def test_what_is_no_relation_algebra_is_refused() -> None:
    plugin = ModuleType("lab")
    names = ("wrong", "nothing", "gone")
    plugin.register_calculi = hookimpl(  # type: ignore[attr-defined]
        lambda: {name: f"{__name__}:{name}" for name in names}
    )
    registry = Registry.of(plugin)
    assert broken_laws(wrong())
    for name, message in (
        ("wrong", "'wrong' of module:lab, .* breaks laws"),
        ("nothing", "is None"),
        ("gone", "cannot be made: .*gone"),
    ):
        with pytest.raises(RegistryError, match=message):
            calculus(name, registry)
    with pytest.raises(InputError, match=r"unknown algebra .rcc8.*wrong"):
        calculus("rcc8", registry)
