"""The options that checks give to a part: its example, and the other choices of every option that has a few."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import attrs

from peirce.spec import structured
from peirce.testing.failures import BrokenError


def example_options(part: type[Any]) -> Any:
    """A part's options as its `example` gives them, the rest by default.

    Raises:
        BrokenError: the options cannot be made so.
    """
    try:
        return structured(part.Options, part.example)
    except Exception as error:
        raise BrokenError(
            f"Options cannot be made from `example` = {dict(part.example)}: {error}. "
            "Give a value to each option without a default: `example = {'size': 4}` on the part"
        ) from error


def choices(options: Any) -> Iterator[tuple[str, Any]]:
    """What differs from the given options in one field of few values, a Literal or a bool, each with its name."""
    hints = get_type_hints(type(options))
    for field in attrs.fields(type(options)):
        if not field.init:
            continue
        kind, now = hints.get(field.name), getattr(options, field.name)
        values = get_args(kind) if get_origin(kind) is Literal else (True, False) if kind is bool else ()
        for value in values:
            if value == now:
                continue
            try:
                yield f"{field.name} = {value!r}", attrs.evolve(options, **{field.alias or field.name: value})
            except (TypeError, ValueError):
                continue  # a choice that the part's own validator refuses beside the others


def as_table(options: Any) -> dict[str, Any]:
    """Options as the table of a spec that gives them."""
    table = {}
    for field in attrs.fields(type(options)):
        value = getattr(options, field.name)
        if field.init and value is not None:
            table[field.name] = as_table(value) if attrs.has(type(value)) else value
    return table
