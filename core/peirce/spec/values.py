"""Immutable values for specs: mappings and lists as they stand in TOML, frozen, comparable and hashable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs


class FrozenDict(Mapping[str, Any]):
    """A read-only mapping with frozen values; it equals any mapping with the same items, in any order.

    From an instance of an attrs class, such as a part's own `Options`, it takes the fields that differ from their
    defaults, and keeps the class as `source_class`.
    """

    __slots__ = ("_items", "source_class")

    def __init__(
        self, items: Mapping[str, Any] | Iterable[tuple[str, Any]] | attrs.AttrsInstance = ()
    ) -> None:
        is_instance = attrs.has(type(items))
        self.source_class: type | None = type(items) if is_instance else getattr(items, "source_class", None)
        plain: Any = _changed_fields(items) if is_instance else items
        self._items = {key: freeze(value) for key, value in dict(plain).items()}
        if wrong := [key for key in self._items if not isinstance(key, str)]:
            raise TypeError(f"keys of a spec are strings; {wrong[0]!r} is a {type(wrong[0]).__name__}")

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


def freeze(value: Any) -> Any:
    """The value with mappings and instances of attrs classes as `FrozenDict`, and lists as tuples.

    Raises:
        TypeError: something that a spec cannot hold, such as a date or None.
    """
    if isinstance(value, FrozenDict | str | bool | int | float):
        return value
    if isinstance(value, Mapping) or attrs.has(type(value)):
        return FrozenDict(value)
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    raise TypeError(
        f"a spec contains strings, numbers, booleans, lists and tables; {value!r} is a {type(value).__name__}"
    )


def toml_key(field: attrs.Attribute[Any]) -> str:
    """The key of a field in TOML; a field whose key is a word of Python, such as `as`, ends in `_`."""
    return field.name.removesuffix("_")


def _changed_fields(options: Any) -> dict[str, Any]:
    """The fields that differ from their defaults, by their keys in TOML."""
    found = {}
    for field in (field for field in attrs.fields(type(options)) if field.init):
        value, default = getattr(options, field.name), field.default
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class at run time
            default = default.factory(*([options] if default.takes_self else []))
        if value != default:
            found[toml_key(field)] = value
    return found
