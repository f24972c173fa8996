"""The shorthand for a layer's operators, `jmc.atp`: unary atoms are written left of the dot, binary ones right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from peirce.errors import SpecError, unknown


def parse_shorthand(
    text: str, letters: Mapping[str, str], typings: Mapping[str, Literal["U", "B"]]
) -> tuple[str, ...]:
    """The names of the operators that a shorthand stands for, in its order.

    Args:
        text: such as `"jmc.atp"`; without a dot every letter writes unary atoms.
        letters: each letter's operator.
        typings: the branch that each operator writes.

    Raises:
        SpecError: an unknown letter, a letter on the wrong side, one that stands twice, or no letter at all.
    """
    left, dot, right = text.partition(".")
    known = [f"{letter} ({letters[letter]})" for letter in sorted(letters)]
    found: list[str] = []
    for letter, side in [*((letter, "U") for letter in left), *((letter, "B") for letter in right)]:
        if letter not in letters:
            raise SpecError(unknown(f"letter of the shorthand {text!r}", letter, known))
        name = letters[letter]
        if typings[name] != side:
            kind, where = ("unary", "left") if typings[name] == "U" else ("binary", "right")
            hint = "" if dot else "; the shorthand has no dot, as in 'jmc.atp'"
            raise SpecError(
                f"{letter!r} ({name}) stands on the wrong side of the dot in the shorthand {text!r}: it writes {kind} "
                f"atoms, so it belongs to the {where}{hint}"
            )
        if name in found:
            twice = f"{letter!r} ({name}) stands twice in the shorthand {text!r}"
            raise SpecError(f"{twice}; list the operators as tables to use one twice")
        found.append(name)
    if not found:
        raise SpecError(f"the shorthand {text!r} names no operator. Known: {', '.join(known)}")
    return tuple(found)
