"""Propositions as text, and whether one entails another: decided exactly, by truth tables of one bit a world.

A proposition is a variable, a letter from a to z; `~(P)`; or `(P&Q)`, `(P|Q)` or `(P>Q)`. Its table is an integer whose
bit w is its value in world w, so that a connective is one operation on integers. With all 26 letters a table has 2**26
bits, 8 MiB: there are no propositions here that need a solver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import and_, or_
from typing import Any, TypeVar

from peirce.errors import TaskError

VARIABLES = "abcdefghijklmnopqrstuvwxyz"
CONNECTIVES = "&|>~"
SIGNS = "()" + CONNECTIVES + VARIABLES
"""The characters of propositions, each of which is a token of a model that reads them, in the order of the ids."""
T = TypeVar("T")
_Both = tuple[frozenset[str], frozenset[str]]


def variables(text: str) -> str:
    """The letters of a proposition, in order."""
    return "".join(sorted({*text} & {*VARIABLES}))


def entails(one: str, other: str) -> bool:
    """Whether every world of `one` is a world of `other`.

    Raises:
        TaskError: one of them is not a proposition.
    """
    letters = variables(one + other)
    worlds = dict(zip(letters, columns_of(len(letters)), strict=True))
    every = (1 << (1 << len(letters))) - 1
    connected: Mapping[str, Callable[[int, int], int]] = {
        "~": lambda value, _: every ^ value, "&": and_, "|": or_, ">": lambda one, other: (every ^ one) | other,
    }  # fmt: skip
    first, second = (evaluate(text, worlds, connected) for text in (one, other))
    return not first & ~second


@lru_cache(maxsize=16)
def columns_of(count: int) -> tuple[int, ...]:
    """The tables of `count` variables."""
    columns = []
    for i in range(count):
        column, width = ((1 << (1 << i)) - 1) << (1 << i), 2 << i
        while width < 1 << count:
            column |= column << width
            width *= 2
        columns.append(column)
    return tuple(columns)


def literals(text: str) -> frozenset[str]:
    """The literals of a proposition's negation normal form, such as `p` and `~p`."""
    each = {letter: (frozenset({letter}), frozenset({f"~{letter}"})) for letter in variables(text)}
    # What a proposition shows, and what its negation shows.
    connected: Mapping[str, Callable[[_Both, _Both], _Both]] = {
        "~": lambda both, _: both[::-1],
        "&": lambda one, other: (one[0] | other[0], one[1] | other[1]),
        "|": lambda one, other: (one[0] | other[0], one[1] | other[1]),
        ">": lambda one, other: (one[1] | other[0], one[0] | other[1]),
    }
    return evaluate(text, each, connected)[0]


def evaluate(text: str, values: Mapping[str, T], connected: Mapping[str, Callable[[T, T], T]]) -> T:
    """The value of a proposition, by those of its variables; `~` is given its one value twice.

    Raises:
        TaskError: it is not a proposition.
    """
    stack: list[Any] = []  # values, and as text what waits for one
    for place, sign in enumerate(text):
        if sign in values:
            value = values[sign]
        elif sign in "(" + CONNECTIVES:
            stack.append(sign)
            continue
        elif sign == ")" and len(stack) > 1 and stack[-2] == "(" and not isinstance(stack[-1], str):
            value = stack.pop()
            stack.pop()
        else:
            raise TaskError(
                f"{text!r} is not a proposition: {sign!r} at character {place + 1} does not belong there"
            )
        while stack and isinstance(stack[-1], str) and stack[-1] != "(":
            waits = stack.pop()
            left = value if waits == "~" else stack.pop() if stack else ""
            if isinstance(left, str):
                raise TaskError(f"{text!r} is not a proposition: {waits!r} has nothing on its left")
            value = connected[waits](left, value)
        if stack and not isinstance(stack[-1], str):
            raise TaskError(
                f"{text!r} is not a proposition: {sign!r} at character {place + 1} has no connective before it: "
                f"{', '.join(CONNECTIVES)}"
            )
        stack.append(value)
    if len(stack) != 1 or isinstance(stack[0], str):
        opened = sum(isinstance(each, str) and each == "(" for each in stack)
        why = f"{opened} bracket(s) are not closed" if opened else "it ends too early"
        raise TaskError(f"{text!r} is not a proposition: {why}")
    found: T = stack[0]
    return found


def check_proposition(text: str) -> None:
    """Refuse a text that is not a proposition.

    Raises:
        TaskError: says what does not belong there, or is not closed.
    """
    evaluate(text, dict.fromkeys(VARIABLES, 0), dict.fromkeys(CONNECTIVES, lambda one, other: 0))


def rename_in_order(*texts: str) -> str:
    """Propositions with their variables renamed in the order in which they come, with commas between them."""
    names: dict[str, str] = {}
    signs = [
        names.setdefault(sign, VARIABLES[len(names)]) if sign.isalpha() else sign for sign in ",".join(texts)
    ]
    return "".join(signs)
