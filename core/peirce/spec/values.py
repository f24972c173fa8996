"""Immutable values for specs: mappings and lists as they stand in TOML, frozen, comparable and hashable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


class FrozenDict(Mapping[str, Any]):
    """A read-only mapping with frozen values; it equals any mapping with the same items, in any order."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        self._items = {key: freeze(value) for key, value in dict(items).items()}
        if odd := [key for key in self._items if not isinstance(key, str)]:
            raise TypeError(f"keys of a spec are strings; {odd[0]!r} is a {type(odd[0]).__name__}")

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
    """The value with mappings as `FrozenDict` and lists as tuples.

    Raises:
        TypeError: something that a spec cannot hold, such as a date or None.
    """
    if isinstance(value, FrozenDict | str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return FrozenDict(value)
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    raise TypeError(
        f"a spec holds strings, numbers, booleans, lists and tables; {value!r} is a {type(value).__name__}"
    )
