"""TOML documents as plain tables, with the place of every key: parsed, put on top of each other, and changed."""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

from attrs import field, frozen

from peirce.errors import SpecError, printable
from peirce.files import parse_integer, parse_toml

KeyPath = tuple[str, ...]
"""A key as its parts, `("model", "heads", "0", "use")`; list items are counted from 0."""

_SYNTAX = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


def split_key(dotted: str) -> KeyPath:
    """The parts of a dotted key; a part with a dot in it is quoted, as in TOML.

    Raises:
        SpecError: `dotted` is not a dotted key.
    """
    path: KeyPath = ()
    with suppress(tomllib.TOMLDecodeError):
        node = tomllib.loads(f"key = {{ {dotted} = 0 }}")["key"]
        while isinstance(node, dict) and len(node) == 1:
            ((part, node),) = node.items()
            path = (*path, part)
        if node == 0:
            return path
    raise SpecError(f"{dotted!r} is not a dotted key such as model.dims.layers")


def join_key(path: KeyPath) -> str:
    """The inverse of `split_key`."""
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else _quoted(part) for part in path)


def _quoted(part: str) -> str:
    return json.dumps(part, ensure_ascii=False).replace("\x7f", "\\u007f")


@frozen
class Document:
    """A TOML document as plain tables, with the place of every key.

    Args:
        data: the tables.
        source: the document's name, for errors.
        places: by key, the name of the override that set it, or the name and the text of the file that did.
    """

    data: dict[str, Any]
    source: str = "the spec"
    places: Mapping[KeyPath, str | tuple[str, str]] = field(factory=dict)

    def at(self, path: str | Sequence[str]) -> str:
        """The place of a key, such as `small.toml:12`, or of its nearest known ancestor.

        Of a table of a file in which overrides set keys, these are named too.
        """
        whole = split_key(path) if isinstance(path, str) else tuple(path)
        parts = whole
        while parts and parts not in self.places:
            parts = parts[:-1]
        place = self.places.get(parts, self.source)
        if isinstance(place, str):
            return place
        set_below = [
            each for key, each in self.places.items() if isinstance(each, str) and key[: len(parts)] == parts
        ]
        also = f" with {' and '.join(dict.fromkeys(set_below))}" if parts == whole and set_below else ""
        return f"{place[0]}:{_line(place[1], parts)}{also}"

    def with_changes(self, changes: Mapping[str, Any]) -> Document:
        """The document with new values at dotted keys.

        Raises:
            SpecError: a key is malformed, or leads through a plain value or beyond a list's end.
        """
        data, places = deepcopy(self.data), self.places
        for dotted, value in changes.items():
            path = split_key(dotted)
            # Later changes may go into these tables.
            created = [path, *_set_value(data, path, deepcopy(value), dotted)]
            places = {**_places_outside(places, {path}), **dict.fromkeys(created, f"override {dotted}")}
        return Document(data, self.source, places)

    def merged_onto(self, base: Document) -> Document:
        """This document on top of another: tables are merged, everything else is replaced."""
        replaced: set[KeyPath] = set()
        data = _merge(base.data, self.data, (), replaced)
        return Document(data, self.source, {**_places_outside(base.places, replaced), **self.places})


def parse_document(text: str, source: str) -> Document:
    """A TOML text; `source` is what errors call it.

    Raises:
        SpecError: it is not valid TOML.
    """
    try:
        data = parse_toml(text)
    except ValueError as error:  # also what tomllib lets through, such as an integer of thousands of digits
        place, message = source, str(error)
        if match := _SYNTAX.fullmatch(message):
            message = match[1][:1].lower() + match[1][1:]
            lines = text.splitlines() or [""]
            number = int(match[2] or len(lines))
            place += f":{number}" + (f", column {match[3]}" if match[2] else "")
            message = message.replace(
                "cannot overwrite a value", "cannot overwrite a value: the key was there before"
            )
            line = lines[min(number, len(lines)) - 1].strip()
            if message == "invalid value" and not line.endswith("="):
                message += ", unless it is a text, which stands in quotes"
            message += f", in the line: {printable(line, 200)}"
        if text.lstrip().startswith("{"):
            message += "; it looks like JSON, whose tables are written [model] and name = ... here"
        raise SpecError(f"{place}: not valid TOML: {message}") from None
    return Document(data, source, dict.fromkeys(_paths(data), (source, text)))


def _paths(node: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Every key, table and list item of a document."""
    items = enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, dict) else ()
    for key, item in items:
        yield (*path, str(key))
        yield from _paths(item, (*path, str(key)))


def _line(text: str, path: KeyPath) -> int:
    """The number of the line, from 1, that adds a key to a document."""
    rows = text.split("\n")

    def holds(count: int) -> bool:
        """Whether the first `count` lines, with the rest of the statement that they break off in, have the key.

        An open list is closed instead, so that its items have lines of their own.
        """
        for end in range(count, len(rows) + 1):
            for closing in ("", "]", "]]", "]]]"):
                with suppress(tomllib.TOMLDecodeError):
                    return path in _paths(tomllib.loads("\n".join([*rows[:end], closing])))
        return True

    return bisect_left(range(1, len(rows)), True, key=holds) + 1


def _places_outside(places: Mapping[KeyPath, Any], replaced: Collection[KeyPath]) -> dict[KeyPath, Any]:
    """The places of what does not lie at or below some keys."""
    below = {path for path in places if any(path[:end] in replaced for end in range(1, len(path) + 1))}
    return {path: place for path, place in places.items() if path not in below}


def _set_value(data: dict[str, Any], path: KeyPath, value: Any, dotted: str) -> list[KeyPath]:
    """Set one value in tables and lists; the paths of the tables that were made on the way."""
    node: Any = data
    created = []
    for depth, part in enumerate(path):
        key: str | int | None = part
        here = join_key(path[:depth])
        if isinstance(node, list):
            key = parse_integer(part)
            if key is None or key >= len(node):
                message = (
                    f"{here} is a list of {len(node)} items, counted from 0; {part!r} is not one of them"
                )
                raise SpecError(f"override {dotted}: {message}")
        elif not isinstance(node, dict):
            raise SpecError(f"override {dotted}: {here} is {node!r}, which has no key {part!r}")
        elif part not in node:
            node[part] = {}
            created.append(path[: depth + 1])
        if depth == len(path) - 1:
            node[key] = value
        node = node[key]
    return created


def _merge(base: Any, over: Any, path: KeyPath, replaced: set[KeyPath]) -> Any:
    """Tables merged, and anything else taken from `over`; the paths of the latter are added to `replaced`."""
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        replaced.add(path)
        return over
    both = {key: _merge(base[key], over[key], (*path, key), replaced) for key in base if key in over}
    return {**base, **over, **both}
