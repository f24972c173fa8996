"""Options that know which of them were read, so that one that nothing reads can be named."""

from __future__ import annotations

from typing import Any, TypeVar

import attrs

T = TypeVar("T")


def recording(options: T, read: set[str]) -> T:
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
    recorder = type(cls.__name__, (cls,), body)
    made: Any = object.__new__(recorder)
    for field in attrs.fields(cls):
        object.__setattr__(made, field.name, getattr(options, field.name))
    read.clear()
    own: T = made
    return own
