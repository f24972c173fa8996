"""The options that checks give to a part: its example, and the other choices; and which of them are read."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from peirce.parts import Dims
from peirce.spec import structure_value
from peirce_testing.compare import BrokenError

T = TypeVar("T")
WHOLE = (1, 2, 3, 4, 6, 50)
NUMBERS = (0.1, 0.25, 0.5, 0.9, 3.0, 0.0, 1.0)
"""Values to try for options that are numbers, beside those near the one that there is."""


def example_options(part: type[Any]) -> Any:
    """A part's options as its `example` gives them, the rest by default.

    Raises:
        BrokenError: the options cannot be made so.
    """
    try:
        return structure_value(part.Options, part.example)
    except Exception as error:
        raise BrokenError(
            f"Options cannot be made from `example` = {dict(part.example)}: {error}. "
            "Give a value to each option without a default: `example = {'size': 4}` on the part"
        ) from error


def options_in(part: type[Any], folder: Path, dims: Dims) -> Any:
    """A part's example options, with files in a folder where its `example_in` writes some."""
    further = part.example_in(folder, dims) if hasattr(part, "example_in") else {}
    return structure_value(part.Options, {**part.example, **further})


def choices(options: Any) -> Iterator[tuple[str, Any]]:
    """What differs from the given options in one field of few values, a Literal or a bool, each with its name."""
    hints = get_type_hints(type(options))
    for field in given_fields(options):
        kind, now = hints.get(field.name), getattr(options, field.name)
        values = get_args(kind) if get_origin(kind) is Literal else (True, False) if kind is bool else ()
        for value in values:
            if value == now:
                continue
            try:
                yield f"{field.name} = {value!r}", attrs.evolve(options, **{field.alias or field.name: value})
            except (TypeError, ValueError):
                continue  # a choice that the part's own validator refuses beside the others


def variations(options: Any) -> Iterator[tuple[str, Any]]:
    """Other values of each option: the other choices, and for numbers some that are smaller and larger."""
    hints = get_type_hints(type(options))
    for field in given_fields(options):
        kind, now = hints.get(field.name), getattr(options, field.name)
        values: list[Any] = []
        for each in get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,):
            if get_origin(each) is Literal:
                values += get_args(each)
            elif each is bool:
                values += [True, False]
            elif each is int:
                values += [*([] if now is None else [now + 1, now - 1, now * 2, now // 2]), *WHOLE]
            elif each is float:
                values += [*([] if now is None else [now * 2, now / 2]), *NUMBERS]
        yield from ((field.name, value) for value in dict.fromkeys(values) if value != now)


def given_fields(options: Any) -> list[Any]:
    """The fields of options, or of their class, that a spec may give."""
    return [f for f in attrs.fields(options if isinstance(options, type) else type(options)) if f.init]


def as_table(options: Any) -> dict[str, Any]:
    """Options as the table of a spec that gives them."""
    values = {field.name: getattr(options, field.name) for field in given_fields(options)}
    return {n: as_table(v) if attrs.has(type(v)) else v for n, v in values.items() if v is not None}


def record_reads(options: T, read: set[str]) -> T:
    """Equal options whose fields, when they are read, add their names to `read`.

    Args:
        options: of an attrs class.
        read: what the names are added to.
    """
    cls: type[Any] = type(options)
    names = {field.name for field in attrs.fields(cls)}

    def get(self: object, name: str) -> Any:
        if name in names:
            read.add(name)
        return object.__getattribute__(self, name)

    body = {"__getattribute__": get, "__module__": cls.__module__, "__doc__": cls.__doc__}
    made: Any = object.__new__(type(cls.__name__, (cls,), body))
    for name in names:
        object.__setattr__(made, name, getattr(options, name))
    read.clear()
    recorded: T = made
    return recorded
