"""Spec files: reading with `extend`, merging, changing single keys, and writing; all on plain tables."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from attrs import Factory, field, frozen

from peirce.errors import SpecError
from peirce.files import DEEPEST, parse_toml, too_deep, whole_number
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

    def without(self, path: KeyPath) -> Locations:
        """The locations of what does not lie at or below a path."""
        kept = {key: place for key, place in self.entries.items() if key[: len(path)] != path}
        return Locations(kept, self.source)

    def with_entries(self, entries: Mapping[KeyPath, str]) -> Locations:
        """These locations and others, which win."""
        return Locations({**self.entries, **entries}, self.source)


@frozen
class Document:
    """A spec as plain tables, with the place of every key."""

    data: dict[str, Any]
    locations: Locations = Factory(Locations)

    def changed(self, changes: Mapping[str, Any]) -> Document:
        """The document with new values at dotted keys.

        Raises:
            SpecError: a key passes through a plain value, or beyond a list's end.
        """
        document = self
        for dotted, value in changes.items():
            try:
                path = split_key(dotted)
            except ValueError as error:
                raise SpecError(f"override {dotted!r}: {error}") from None
            if len(path) > DEEPEST or too_deep(value, DEEPEST - len(path)):
                raise SpecError(f"override {_cut(dotted)}: {_TOO_DEEP}")
            data = _set(document.data, path, value, dotted, 0)
            places = dict.fromkeys([path, *_absent(document.data, path)], f"override {dotted}")
            document = Document(data, document.locations.without(path).with_entries(places))
        return document

    def merged(self, base: Document) -> Document:
        """This document on top of another: tables are merged, everything else is replaced."""
        locations = base.locations
        for path in _replaced(base.data, self.data, ()):
            locations = locations.without(path)
        locations = Locations({**locations.entries, **self.locations.entries}, self.locations.source)
        return Document(_merge(base.data, self.data), locations)


def read(path_or_name: str | os.PathLike[str], ready: Ready, seen: tuple[str, ...] = ()) -> Document:
    """The document of a file or of a ready spec, with what it extends merged in."""
    path = find(path_or_name, ready)
    if "\0" in str(path):
        raise SpecError(f"{str(path)!r} is no path: it holds a zero byte")
    identity = os.path.realpath(path)
    if identity in seen:
        chain = " extends ".join(_short(name) for name in (*seen[seen.index(identity) :], identity))
        raise SpecError(f"{chain}: a spec cannot extend itself; remove one `extend`")
    if len(seen) >= DEEPEST:
        raise SpecError(
            f"{_short(path)}: more than {DEEPEST} specs extend each other; put some of them together"
        )
    try:
        text = read_file(path)
    except FileNotFoundError:
        raise SpecError(f"no spec file {_short(path)}.{_specs_in(path.parent)}") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{_short(path)}: not UTF-8 text, as TOML must be: {error.reason}") from None
    except IsADirectoryError:
        raise SpecError(f"{_short(path)} is a folder, not a spec.{_specs_in(path)}") from None
    except OSError as error:
        raise SpecError(f"{_short(path)}: cannot be read: {error.strerror or error}") from None
    return read_text(text, _short(path), ready, seen=(*seen, identity), folder=path.parent)


def read_text(
    text: str, source: str, ready: Ready, seen: tuple[str, ...] = (), folder: Path | None = None
) -> Document:
    """The document of a text with what it extends merged in; a relative `extend` starts from `folder`."""
    try:
        data = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(_syntax_error(error, text, source)) from None
    except ValueError as error:
        # What tomllib lets through: an integer of thousands of digits, a date that there is not.
        raise SpecError(f"{source}: not valid TOML: {error}") from None
    lines = {path: f"{source}:{line}" for path, line in key_lines(text.replace("\r\n", "\n")).items()}
    document = Document(data, Locations(lines, source))
    if "extend" not in data:
        return document
    base = data.pop("extend")
    place = document.locations.at(("extend",))
    if not isinstance(base, str):
        raise SpecError(f"{place}: extend must be a string: a path or the name of a ready spec, not {base!r}")
    if is_path(base):
        base = str((folder or Path(source).parent) / base)
    try:
        return document.merged(read(base, ready, seen))
    except SpecError as error:
        raise SpecError(f"{error}\n  extended at {place}") from error


_TOO_DEEP = f"tables and lists are nested more than {DEEPEST} deep; no key of a spec needs that"


def _cut(text: str) -> str:
    return text if len(text) < 80 else f"{text[:76]} ..."


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
    """The dotted key and the value of `key=value`; a value that is no TOML is a string as it stands."""
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
        raise SpecError(f"cannot read the value of {_cut(dotted)}: {error}") from None


def write(data: Mapping[str, Any]) -> str:
    """A plain document as TOML."""
    return tomlkit.dumps(data)


def _set(node: Any, path: KeyPath, value: Any, dotted: str, depth: int) -> Any:
    """A copy of a table or list with one value changed; missing tables are made."""
    if depth == len(path):
        return value
    part = path[depth]
    if isinstance(node, Mapping):
        return {**node, part: _set(node.get(part, {}), path, value, dotted, depth + 1)}
    here = join_key(path[:depth])
    if not isinstance(node, list):
        raise SpecError(f"override {dotted}: {here} is {node!r}, which has no key {part!r}")
    place = whole_number(part)
    if place is None or place >= len(node):
        raise SpecError(
            f"override {dotted}: {here} is a list of {len(node)}; {part!r} is no index of it, from 0"
        )
    changed = list(node)
    changed[place] = _set(changed[place], path, value, dotted, depth + 1)
    return changed


def _absent(node: Any, path: KeyPath) -> Iterator[KeyPath]:
    """The tables on the way to a key that a document does not have yet."""
    for depth, part in enumerate(path):
        if isinstance(node, Mapping) and part not in node:
            yield from (path[:end] for end in range(depth + 1, len(path)))
            return
        node = node[part] if isinstance(node, Mapping) else node[int(part)]


def _merge(base: Any, over: Any) -> Any:
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return over
    merged = {key: _merge(base[key], over[key]) if key in over else base[key] for key in base}
    return {**merged, **{key: value for key, value in over.items() if key not in base}}


def _replaced(base: Any, over: Any, path: KeyPath) -> Iterator[KeyPath]:
    """The paths whose values the merge takes from `over` whole."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        for key in base.keys() & over.keys():
            yield from _replaced(base[key], over[key], (*path, key))
    elif path:
        yield path


def _short(path: str | os.PathLike[str]) -> str:
    """A path as a reader knows it: from the working directory if it lies below."""
    try:
        return Path(path).absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return os.fspath(path)
