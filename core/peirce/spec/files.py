"""Spec files: reading with `extend`, merging, changing single keys, and writing; all on plain tables."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from attrs import Factory, field, frozen

from peirce.errors import SpecError
from peirce.files import parse_toml, whole_number
from peirce.files import read_text as read_file
from peirce.spec.toml_lines import KeyPath, join_key, key_lines, split_key

Ready = Callable[[str], Path]
"""Finds the file of a ready spec by its name; it raises `SpecError` where there is none."""

_SYNTAX = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL
)


@frozen
class Locations:
    """Where keys stand: `file:line` by path, and the file as a whole."""

    entries: Mapping[KeyPath, str] = field(factory=dict)
    source: str = "the spec"

    def at(self, path: str | Sequence[str]) -> str:
        """The place of a key, or of its nearest known ancestor."""
        parts = split_key(path) if isinstance(path, str) else tuple(path)
        for end in range(len(parts), 0, -1):
            if place := self.entries.get(parts[:end]):
                return place
        return self.source

    def without(self, *paths: KeyPath) -> Locations:
        """The locations of what does not lie at or below some paths."""
        kept = {
            key: place
            for key, place in self.entries.items()
            if not any(key[: len(path)] == path for path in paths)
        }
        return Locations(kept, self.source)

    def and_of(self, entries: Mapping[KeyPath, str], source: str) -> Locations:
        """These locations and others, which win."""
        return Locations({**self.entries, **entries}, source)


@frozen
class Document:
    """A TOML document as plain tables, with the place of every key."""

    data: dict[str, Any]
    locations: Locations = Factory(Locations)

    def changed(self, changes: Mapping[str, Any]) -> Document:
        """The document with new values at dotted keys.

        Raises:
            SpecError: a key passes through a plain value, or beyond a list's end.
        """
        data, locations = deepcopy(self.data), self.locations
        for dotted, value in changes.items():
            try:
                path = split_key(dotted)
            except ValueError as error:
                raise SpecError(f"override {dotted!r}: {error}") from None
            made = [path, *_put(data, path, deepcopy(value), dotted)]  # which later changes may go into
            place = f"override {dotted}"
            locations = locations.without(path).and_of(dict.fromkeys(made, place), locations.source)
        return Document(data, locations)

    def merged(self, base: Document) -> Document:
        """This document on top of another: tables are merged, everything else is replaced."""
        replaced: list[KeyPath] = []
        data = _merge(base.data, self.data, (), replaced)
        locations = base.locations.without(*replaced)
        return Document(data, locations.and_of(self.locations.entries, self.locations.source))


def read(path_or_name: str | os.PathLike[str], ready: Ready, seen: tuple[str, ...] = ()) -> Document:
    """The document of a spec's file or of a ready spec, with what it extends merged in."""
    path = find(path_or_name, ready)
    identity = os.path.realpath(path)
    if identity in seen:
        chain = " extends ".join(_short(name) for name in (*seen[seen.index(identity) :], identity))
        raise SpecError(f"{chain}: a spec cannot extend itself; remove one `extend`")
    return _extended(read_document(path), path.parent, ready, (*seen, identity))


def read_text(text: str, source: str, ready: Ready) -> Document:
    """The document of a spec's text, with what it extends merged in; paths start from the folder of `source`."""
    return _extended(parse_document(text, source), Path(source).parent, ready, ())


def read_document(path: Path, what: str = "spec") -> Document:
    """A TOML file.

    Args:
        path: the file.
        what: what it is, for errors.

    Raises:
        SpecError: it cannot be read, or is no TOML.
    """
    try:
        text = read_file(path)
    except FileNotFoundError:
        raise SpecError(f"no {what} file {_short(path)}.{_specs_in(path.parent)}") from None
    except IsADirectoryError:
        raise SpecError(f"{_short(path)} is a folder, not a {what}.{_specs_in(path)}") from None
    except (OSError, ValueError) as error:  # such as text that is not UTF-8
        raise SpecError(f"{_short(path)}: cannot be read: {error}") from None
    return parse_document(text, _short(path))


def parse_document(text: str, source: str) -> Document:
    """A TOML text.

    Raises:
        SpecError: it is no TOML.
    """
    try:
        data = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(_syntax_error(error, text, source)) from None
    except ValueError as error:  # such as an integer of thousands of digits, which tomllib lets through
        raise SpecError(f"{source}: not valid TOML: {error}") from None
    lines = {path: f"{source}:{line}" for path, line in key_lines(text.replace("\r\n", "\n")).items()}
    return Document(data, Locations(lines, source))


def _extended(document: Document, folder: Path, ready: Ready, seen: tuple[str, ...]) -> Document:
    """A document with what it extends merged in; a relative path starts from a folder."""
    if "extend" not in document.data:
        return document
    base = document.data.pop("extend")
    place = document.locations.at(("extend",))
    if not isinstance(base, str):
        raise SpecError(f"{place}: extend must be a string: a path or the name of a ready spec, not {base!r}")
    try:
        return document.merged(read(str(folder / base) if is_path(base) else base, ready, seen))
    except SpecError as error:
        raise SpecError(f"{error}\n  extended at {place}") from error


def _syntax_error(error: tomllib.TOMLDecodeError, text: str, source: str) -> str:
    match = _SYNTAX.fullmatch(str(error))
    if match is None:
        return f"{source}: not valid TOML: {error}"
    line = match["line"] or str(text.count("\n") + 1)
    column = f", column {match['column']}" if match["column"] else ""
    return f"{source}:{line}{column}: not valid TOML: {match['what'][:1].lower()}{match['what'][1:]}"


def is_path(path_or_name: str | os.PathLike[str]) -> bool:
    """Whether a SPEC argument is a path: it ends in `.toml` or has a separator."""
    text = os.fspath(path_or_name)
    return not isinstance(path_or_name, str) or text.endswith(".toml") or "/" in text or os.sep in text


def find(path_or_name: str | os.PathLike[str], ready: Ready) -> Path:
    """The file of a SPEC argument.

    Raises:
        SpecError: it is a name, and no ready spec has it.
    """
    if is_path(path_or_name):
        return Path(path_or_name)
    name = os.fspath(path_or_name)
    try:
        return ready(name)
    except SpecError as error:
        for path in (f"{name}.toml", f"{name}/spec.toml", f"./{name}"):
            if Path(path).is_file():
                raise SpecError(
                    f"{name!r} is no ready spec; for the file that is here, write {path}"
                ) from None
        raise SpecError(f"{error}. A path ends in .toml or has a separator") from None


def _specs_in(folder: Path) -> str:
    """A hint at the specs of a folder; empty where there are none."""
    near = sorted(path.name for path in folder.glob("*.toml"))
    return f" That folder has {', '.join(near)}." if near else ""


def summary_of(path: Path) -> str:
    """What a ready spec is: the comment in its first line."""
    return read_file(path).partition("\n")[0].removeprefix("#").strip()


def parse_override(text: str) -> tuple[str, Any]:
    """The key and the value of `model.dims.layers=2`; the value is TOML, or else a string as it stands.

    Raises:
        SpecError: there is no `=`, or what stands before it is no dotted key.
    """
    dotted, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError("there is no '='")
        split_key(dotted.strip())
    except ValueError as error:
        raise SpecError(f"cannot read {text!r} as KEY=VALUE, such as model.dims.layers=2: {error}") from None
    try:
        return dotted.strip(), parse_toml(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return dotted.strip(), value.strip()
    except ValueError as error:
        raise SpecError(f"cannot read the value of {dotted}: {error}") from None


def write(data: Mapping[str, Any]) -> str:
    """A plain document as TOML."""
    import tomlkit

    return tomlkit.dumps(data)


def _put(data: dict[str, Any], path: KeyPath, value: Any, dotted: str) -> list[KeyPath]:
    """Set one value in tables and lists; the paths of the tables that were made on the way."""
    node: Any = data
    made = []
    for depth, part in enumerate(path):
        key: str | int = part
        if isinstance(node, list):
            place = whole_number(part)
            if place is None or place >= len(node):
                here = f"{join_key(path[:depth])} is a list of {len(node)}"
                raise SpecError(f"override {dotted}: {here}; {part!r} is no index of it, from 0")
            key = place
        elif not isinstance(node, dict):
            raise SpecError(
                f"override {dotted}: {join_key(path[:depth])} is {node!r}, which has no key {part!r}"
            )
        if depth == len(path) - 1:
            node[key] = value
        elif isinstance(node, dict) and part not in node:
            node[key] = {}
            made.append(path[: depth + 1])
        node = node[key]
    return made


def _merge(base: Any, over: Any, path: KeyPath, replaced: list[KeyPath]) -> Any:
    """Tables merged, and anything else taken from `over`; the paths of the latter are added to `replaced`."""
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        replaced.append(path)
        return over
    both = {key: _merge(base[key], over[key], (*path, key), replaced) for key in base if key in over}
    return {**base, **over, **both}


def _short(path: str | os.PathLike[str]) -> str:
    """A path as a reader knows it: from the working directory if it lies below."""
    try:
        return Path(path).absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return os.fspath(path)
