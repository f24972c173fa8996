"""Propositions as text, and whether one entails another: decided exactly, by truth tables of one bit a world.

A proposition is a variable, a letter from a to z; `~(P)`; or `(P&Q)`, `(P|Q)` or `(P>Q)`. Its table is an integer whose
bit w is its value in world w, so that a connective is one operation on integers. With all 26 letters a table has 2**26
bits, 8 MiB: there are no propositions here that need a solver.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from peirce.errors import TaskError

VARIABLES = "abcdefghijklmnopqrstuvwxyz"
CONNECTIVES = "&|>~"
_CACHED = 16
"""Columns of so many variables and fewer are kept; larger ones are made again."""


def variables(text: str) -> str:
    """The letters of a proposition, in order."""
    return "".join(sorted({*text} & {*VARIABLES}))


def entails(one: str, other: str) -> bool:
    """Whether every world of `one` is a world of `other`.

    Raises:
        TaskError: either is no proposition.
    """
    letters = variables(one + other)
    columns = columns_of(len(letters))
    worlds = dict(zip(letters, columns, strict=True))
    return not table(one, worlds, len(letters)) & ~table(other, worlds, len(letters))


def columns_of(count: int) -> tuple[int, ...]:
    """The tables of `count` variables."""
    return _kept(count) if count <= _CACHED else _columns(count)


def _columns(count: int) -> tuple[int, ...]:
    made = []
    for i in range(count):
        column, width = ((1 << (1 << i)) - 1) << (1 << i), 2 << i
        while width < 1 << count:
            column |= column << width
            width *= 2
        made.append(column)
    return tuple(made)


_kept = lru_cache(maxsize=None)(_columns)


def table(text: str, worlds: Mapping[str, int], count: int) -> int:
    """The table of a proposition.

    Args:
        text: the proposition.
        worlds: the tables of its variables.
        count: how many variables there are.

    Raises:
        TaskError: it is no proposition.
    """
    every = (1 << (1 << count)) - 1
    stack: list[int | str] = []
    for place, sign in enumerate(text):
        if sign in worlds:
            _push(stack, worlds[sign], every)
        elif sign in "(" + CONNECTIVES:
            stack.append(sign)
        elif sign == ")" and len(stack) > 1 and stack[-2] == "(" and isinstance(stack[-1], int):
            value = stack.pop()
            stack.pop()
            assert isinstance(value, int)
            _push(stack, value, every)
        else:
            raise TaskError(
                f"{text!r} is no proposition: {sign!r} at character {place + 1} does not belong there"
            )
    if len(stack) != 1 or not isinstance(stack[0], int):
        raise TaskError(f"{text!r} is no proposition: it ends too early")
    return stack[0]


def _push(stack: list[int | str], value: int, every: int) -> None:
    """Put a value on the stack, with the connectives that wait for it."""
    while stack and stack[-1] in ("~", "&", "|", ">"):
        sign = stack.pop()
        if sign == "~":
            value = every ^ value
            continue
        left = stack.pop() if stack else None
        if not isinstance(left, int):
            raise TaskError(f"no proposition: {sign!r} has nothing on its left")
        value = left & value if sign == "&" else left | value if sign == "|" else (every ^ left) | value
    stack.append(value)


def renamed(*texts: str) -> str:
    """Propositions with their variables renamed in the order in which they come, with commas between them."""
    names: dict[str, str] = {}
    signs = [
        names.setdefault(sign, VARIABLES[len(names)]) if sign.isalpha() else sign for sign in ",".join(texts)
    ]
    return "".join(signs)
