"""Diagrams of operators: which cells feed which, by typing and readings alone, for plug-ins' operators too."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from command_line import exit_code as run
from shared_folder import ROOT

from peirce.parts import Operator, Reader, Writer
from peirce.registry import Registry
from peirce_show import draw, operator_diagram
from peirce_show.diagrams import tiles


class Turned(Operator):
    """u[d](x,y) = K[d](x,y) v[d](y,x), an operator that no list knows."""

    name, typing, scope_rule = "turned", "B <- B x B", "pairwise"

    def kernel(self) -> Reader:
        return Reader(branch="B", shape={"d": self.dims.binary})

    def premise(self) -> Reader:
        return Reader(branch="B", shape={"d": self.dims.binary}, cached=True)

    def output(self) -> Writer:
        return Writer(branch="B", shape={"d": self.dims.binary})

    def infer(self, kernel: Any, premise: Any, scope: Any) -> Any:
        return kernel * premise.transpose(1, 2)

    def reference(self, kernel: Any, premise: Any, scope: Any) -> Any:
        raise NotImplementedError


EQUATIONS = {
    "join": "u(x) from kernel(x, a) × premise(a)",
    "mu": "u(x) from kernel(x, a) × premise(x, a)",
    "cjoin": "u(x) from kernel(a) × premise(a, x)",
    "assoc": "u(x, y) from kernel(x) × premise(y)",
    "trans": "u(x, y) from kernel(x, a) × premise(a, y)",
    "prod": "u(x, y) from kernel(x) × premise(x, y)",
    "attention": "u(x) from query(x) × key(a) × value(a)",
    "bool": "u(x), u(x, y) from u(x), u(x, y) and u(y, x)",
    "lstm": "u(x) from u(≤ x)",
    "swiglu": "u(x) from u(x)",
}
"""What the papers' equations read and write."""


def told(operator: type[Any]) -> str:
    root = ElementTree.fromstring(operator_diagram(operator))
    return next(each.text or "" for each in root if each.tag.endswith("desc"))


@pytest.mark.parametrize("name", EQUATIONS)
def test_cells_are_those_of_the_equation(name: str, registry: Registry) -> None:
    assert told(registry.get("operators", name)).startswith(EQUATIONS[name] + ",")


def test_an_operator_of_a_stranger_is_drawn_by_its_readings() -> None:
    assert told(Turned).startswith("u(x, y) from kernel(x, y) × premise(y, x), for each pair")
    reads, _ = tiles(Turned)
    assert [tile.axes for tile in reads] == [("xy",), ("yx",)]


def test_every_operator_has_a_diagram(registry: Registry) -> None:
    for entry in registry.entries("operators"):
        reads, writes = tiles(entry.part)
        written = entry.part.typing.partition(" <- ")[0]
        assert "".join(tile.branch for tile in writes) == written
        assert reads
        assert entry.name in operator_diagram(entry.part)


def test_describe_draws_an_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trans.svg"
    assert run("describe", "trans", "--picture", path) == 0
    assert "B &lt;- B x B" in path.read_text()
    assert run("describe", "rope", "--picture", path) == 2
    assert "unknown kind 'positions' of parts with a picture. Known: operators" in capsys.readouterr().err
    assert run("describe", "trans", "--picture", tmp_path / "trans.html") == 2
    assert "let it end in .svg, .png" in capsys.readouterr().err


def test_pictures_of_the_guide_are_drawn_by_the_code(registry: Registry) -> None:
    pictures = ROOT / "docs" / "pictures"
    assert (pictures / "trans.svg").read_text() == operator_diagram(registry.get("operators", "trans"))
    assert (pictures / "folnet-base.svg").read_text() == draw("folnet-base", registry=registry)
