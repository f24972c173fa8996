"""What the docstrings of parts and options say, for listings, schemas and the documentation."""

from __future__ import annotations

import inspect
import re
from contextlib import suppress
from typing import Any

import attrs


def arguments(cls: type) -> dict[str, str]:
    """The descriptions in the `Args:` sections of a class and its bases, by argument, each on one line."""
    meanings: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        text = inspect.cleandoc(each.__doc__ or "")
        section = re.search(r"^Args:\n((?:[ ]{4}.*\n?|\n)*)", text, re.MULTILINE)
        found = re.finditer(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section[1] if section else "", re.MULTILINE)
        meanings |= {match[1]: " ".join(match[2].split()) for match in found}
    return meanings


def first_line(cls: type) -> str:
    """The first line of a class's own docstring; empty without one, where `inspect` would give a base class's."""
    return inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]


def fields(options: type[Any]) -> list[dict[str, Any]]:
    """Name, type, default and meaning of each field of an attrs class; a required one has no default."""
    listed, meanings = [], arguments(options)
    # A type that only the type checker can see stays as it is written.
    with suppress(NameError, TypeError):
        attrs.resolve_types(options)
    for field in (field for field in attrs.fields(options) if field.init):
        default, required = field.default, field.default is attrs.NOTHING
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
            default = None if default.takes_self else default.factory()
        described = {
            "name": field.alias or field.name,
            "type": _type_name(field.type),
            "meaning": meanings.get(field.name, ""),
            "required": required,
        }
        if not required:
            described["default"] = attrs.asdict(default) if attrs.has(type(default)) else default
        listed.append(described)
    return listed


def _type_name(annotation: object) -> str:
    if isinstance(annotation, type) and annotation.__module__ == "builtins" and "[" not in str(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "").replace("collections.abc.", "")
