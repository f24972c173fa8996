"""Deliberately wrong parts, each a correct one plus one flaw, beside the correct one.

They are written as an outsider might write them. A flaw that its author believes in stands in `reference` as well, so
that only the check which is about the flaw can find it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch
from attrs import frozen

from peirce.model import Exporter, Task
from peirce.parts import Architecture, Augmenter, Head, Position

C = TypeVar("C", bound=type[Any])
exact = partial(torch.tensor, dtype=torch.float64)
"""What `reference` is given, as a tensor."""


@frozen
class Pair:
    """A correct part, the same part with one flaw, and the check that must reject it."""

    right: type[Any]
    wrong: type[Any]
    check: str
    kind: str


PAIRS: list[Pair] = []
"""All of them, filled by `wrong` and `flaw`."""


def pair_of(wrong: type[Any], check: str) -> Pair:
    """A pair of a wrong class and the class that it inherits from."""
    kinds = {
        Architecture: "architectures", Augmenter: "augmenters", Head: "heads", Position: "positions",
        Exporter: "exporters", Task: "tasks",
    }  # fmt: skip
    kind = next((kind for base, kind in kinds.items() if issubclass(wrong, base)), "operators")
    return Pair(wrong.__mro__[1], wrong, check, kind)


def wrong(check: str) -> Callable[[C], C]:
    """A subclass of a correct part, with one flaw that a check must reject; it is named by its class."""

    def take(cls: C) -> C:
        if "name" not in vars(cls):
            cls.name = named(cls.__name__)
        PAIRS.append(pair_of(cls, check))
        return cls

    return take


def flaw(right: type[Any], check: str, name: str, said: str, /, **body: Any) -> type[Any]:
    """A subclass of a correct part in a few words: its attributes and methods, and what is wrong with them."""
    made = type(name, (right,), {"__doc__": said, "__module__": right.__module__, **body})
    return wrong(check)(made)


def flawed(right: type[Any], method: str, check: str) -> Callable[[Callable[..., Any]], type[Any]]:
    """A subclass of a correct part with another method; its name and what is wrong with it are the function's."""
    return lambda made: flaw(right, check, made.__name__, made.__doc__ or "", **{method: made})


def named(cls: str) -> str:
    """`HalfInside` as `half_inside`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls).lower()
