"""The shorthand of a layer: left of the dot unary atoms are written, right of it binary ones."""

from __future__ import annotations

from typing import Literal

import pytest
from peirce.errors import SpecError
from peirce.spec import parse_shorthand

LETTERS = {"j": "join", "m": "mu", "c": "cjoin", "a": "assoc", "t": "trans", "p": "prod"}
TYPINGS: dict[str, Literal["U", "B"]] = {
    "join": "U", "mu": "U", "cjoin": "U", "assoc": "B", "trans": "B", "prod": "B",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("jmc.atp", ("join", "mu", "cjoin", "assoc", "trans", "prod")),
        ("j.a", ("join", "assoc")),
        ("cj.pa", ("cjoin", "join", "prod", "assoc")),
        ("j", ("join",)),
        (".a", ("assoc",)),
    ],
)
def test_letters_stand_for_operators_in_order(text: str, names: tuple[str, ...]) -> None:
    assert parse_shorthand(text, LETTERS, TYPINGS) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jx.a", r"unknown letter 'x' of the shorthand 'jx.a'. Known: a \(assoc\), .* t \(trans\)"),
        ("j.a.p", r"unknown letter '\.'"),
        ("j a", "unknown letter ' '"),
        ("ja.p", r"'a' \(assoc\) .* writes binary atoms, so it belongs to the right"),
        ("j.am", r"'m' \(mu\) .* writes unary atoms, so it belongs to the left"),
        ("jj.a", r"'j' \(join\) stands twice"),
        ("", "names no operator"),
        (".", "names no operator"),
    ],
)
def test_a_mistake_is_explained(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_shorthand(text, LETTERS, TYPINGS)
