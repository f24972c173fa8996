"""The options that checks give to a part: its example, and the other choices; and which of them are read."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
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
SOME: Mapping[Any, list[Any]] = {int: [3, 6], float: [0.5, 2.0]}
"""Numbers for an option that is None."""


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
    """What differs from the given options in one field of few values, each with its name.

    A field has few values if they are those of a Literal, a bool or `validators.in_`, or None beside numbers.
    """
    for field, values in few_values(options).items():
        for value in values:
            with suppress(
                TypeError, ValueError
            ):  # a choice that the part's own validator refuses beside the others
                yield f"{field} = {value!r}", with_value(options, field, value)


def few_values(options: Any) -> dict[str, list[Any]]:
    """The other values of each field that has few."""
    hints = get_type_hints(type(options))
    found = {}
    for field in given_fields(options):
        now, values, kinds = (
            getattr(options, field.name),
            _listed(field.validator),
            kinds_of(hints.get(field.name)),
        )
        for kind in kinds:
            listed = get_args(kind) if get_origin(kind) is Literal else (True, False) if kind is bool else ()
            values += listed
        if type(None) in kinds:
            numbers = next((SOME[kind] for kind in kinds if kind in SOME), [])
            values += numbers if now is None else [None]
        if others := [value for value in dict.fromkeys(values) if value != now]:
            found[field.name] = others
    return found


def with_value(options: Any, name: str, value: Any) -> Any:
    """The options with another value of one field."""
    alias = attrs.fields_dict(type(options))[name].alias or name
    return attrs.evolve(options, **{alias: value})


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one that there is."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _listed(validator: Any) -> list[Any]:
    """The values that `validators.in_` lists, alone or among others or where None is taken too."""
    inner = getattr(validator, "_validators", None) or [getattr(validator, "validator", None)]
    found = list(getattr(validator, "options", ()))
    return found + [value for each in inner if each is not None for value in _listed(each)]


def variations(options: Any) -> Iterator[tuple[str, Any]]:
    """Other values of each option: the other choices, and for numbers some that are smaller and larger."""
    hints, few = get_type_hints(type(options)), few_values(options)
    for field in given_fields(options):
        kinds, now = kinds_of(hints.get(field.name)), getattr(options, field.name)
        values = few.get(field.name, [])
        for each in kinds:
            if each is int:
                values += [*([] if now is None else [now + 1, now - 1, now * 2, now // 2]), *WHOLE]
            elif each is float:
                values += [*([] if now is None else [now * 2, now / 2]), *NUMBERS]
        yield from ((field.name, value) for value in dict.fromkeys(values) if value != now)


def differing(options: Any, others: Any) -> str:
    """The fields of other options that are not as in the first, as a failure names them."""
    pairs = ((field.name, getattr(others, field.name)) for field in given_fields(others))
    return ", ".join(f"{name} = {value!r}" for name, value in pairs if value != getattr(options, name))


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
