"""The shorthand for a layer's operators, `jmc.atp`: letters to the left of the dot write unary atoms, to the
right binary ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from peirce.errors import SpecError

Branch = Literal["U", "B"]
_SIDES: Mapping[Branch, tuple[str, str]] = {"U": ("left", "unary"), "B": ("right", "binary")}


def parse_shorthand(text: str, letters: Mapping[str, str], typings: Mapping[str, Branch]) -> tuple[str, ...]:
    """The names of the operators that a shorthand stands for, in its order.

    Args:
        text: such as `"jmc.atp"`; without a dot every letter writes unary atoms.
        letters: each letter's operator.
        typings: the branch that each operator writes.

    Raises:
        SpecError: an unknown letter, a letter on the wrong side, one that stands twice, or no letter at all.
    """
    left, _, right = text.partition(".")
    known = ", ".join(f"{letter} ({letters[letter]})" for letter in sorted(letters))
    found: list[str] = []
    sides: tuple[tuple[Branch, str], ...] = (("U", left), ("B", right))
    for branch, side in sides:
        for letter in side:
            name = letters.get(letter)
            if name is None:
                raise SpecError(
                    f"unknown letter {letter!r} in the shorthand {text!r}. Known: {known or 'none'}"
                )
            if typings[name] != branch:
                where, kind = _SIDES[typings[name]]
                if "." not in text:
                    raise SpecError(
                        f"the shorthand {text!r} has no dot, and {letter!r} ({name}) writes {kind} atoms: letters that "
                        "write binary atoms stand to the right of a dot, as in 'jmc.atp'"
                    )
                raise SpecError(
                    f"{letter!r} ({name}) stands on the wrong side of the dot in the shorthand {text!r}: "
                    f"it writes {kind} atoms, so it belongs to the {where}"
                )
            if name in found:
                raise SpecError(
                    f"{letter!r} ({name}) stands twice in the shorthand {text!r}; "
                    "list the operators as tables to use one twice"
                )
            found.append(name)
    if not found:
        raise SpecError(f"the shorthand {text!r} names no operator. Known: {known or 'none'}")
    return tuple(found)
