"""Strict structuring: plain TOML values into attrs classes, every mistake with its key and its place."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, Union, get_args, get_origin

import attrs

from peirce.errors import SpecError, unknown
from peirce.spec.toml_lines import KeyPath, join_key
from peirce.spec.values import freeze

T = TypeVar("T")

REST = "rest"
"""Metadata of a field that takes every key of its table that no other field takes."""
HIDDEN = "hidden"
"""Metadata of a field that is no key of the table."""
KEY = "key"
"""Metadata of a field whose key in TOML is not its name."""


class Located(Protocol):
    """Something that knows where its keys stand; a spec does."""

    def at(self, path: str | Sequence[str]) -> str:
        """`file:line` of a key, or of its nearest known ancestor."""


@attrs.frozen
class _Unknown:
    key: str
    known: tuple[str, ...]
    inside: str | None = None
    """The table that the key would be right in."""


@attrs.frozen
class _Missing:
    key: str


@attrs.frozen
class _Brackets:
    """A header with one bracket where two are meant (`many`), or the other way round."""

    many: bool


What = str | _Unknown | _Missing | _Brackets
Problem = tuple[KeyPath, What]


class StructureError(ValueError):
    """What is wrong inside one value: each problem's path below that value, and what it is."""

    def __init__(self, *items: Problem) -> None:
        super().__init__("; ".join(_said((), "key", *item)[1] for item in items))
        self.items = items

    def below(self, path: KeyPath) -> list[Problem]:
        """The problems, with their paths from higher up."""
        return [((*path, *inner), what) for inner, what in self.items]


def structure(cls: type[T], value: object, *, where: Located, path: KeyPath, label: str) -> T:
    """Make an instance of an attrs class from plain values, strictly.

    Args:
        cls: an attrs class of int, float, bool, str, Literal, unions, tuples, mappings and attrs classes.
        value: the table.
        where: finds the file and line of a key.
        path: the table's key in the document.
        label: what a key of the table is called in an error, such as `option of position 'shaw'`.

    Raises:
        SpecError: unknown, missing or wrong keys, all of them, each with its location.
    """
    try:
        return structured(cls, value)
    except StructureError as error:
        said = [_said(path, label, *item) for item in error.items]
        raise SpecError("\n".join(f"{where.at(key)}: {sentence}" for key, sentence in said)) from error


def structured(kind: Any, value: Any) -> Any:
    """A plain value as a type. Nothing is coerced, since TOML has kinds of its own; an integer may stand for a float.

    Raises:
        StructureError: the value is no such thing; it holds every problem.
    """
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin in _UNIONS:
        arms = sorted(args, key=lambda arm: arm is float)
        for arm in arms:
            if _fits(value, arm):
                return structured(arm, value)
    if not _fits(value, kind):
        raise _wrong(kind, value)
    if attrs.has(origin):
        return _instance(origin, value)
    if origin is tuple:
        kinds = _item_kinds(args, len(value))
        return tuple(_each(zip(map(str, range(len(value))), kinds, value, strict=True)).values())
    if origin in _TABLES:
        return _frozen(_each((key, args[1] if args else Any, item) for key, item in value.items()))
    if kind is Any:
        return _frozen(value)
    if kind is int and not -(2**63) <= value < 2**63:
        # What TOML promises, and what torch can hold.
        raise _wrong("an integer of at most 64 bits", value)
    if kind is float and not abs(value) <= sys.float_info.max:
        raise _wrong("a finite number", value)
    return float(value) if kind is float else value


def _instance(cls: type, table: Mapping[str, Any]) -> Any:
    """An instance of an attrs class from a table, its keys checked; a field may ask for all that are left."""
    attrs.resolve_types(cls)
    rest = rest_field(cls)
    fields = {
        toml_key(field): field for field in attrs.fields(cls) if field.init and not field.metadata.get(HIDDEN)
    }
    extra = {key: item for key, item in table.items() if key not in fields or fields[key] is rest}
    given: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, field in fields.items():
        if field is not rest and key not in table:
            problems += [((), _Missing(key))] if field.default is attrs.NOTHING else []
            continue
        try:
            value = structured(Mapping, extra) if field is rest else structured(field.type, table[key])
            given[field.alias or field.name] = value
        except StructureError as error:
            problems += error.below(() if field is rest else (key,))
    if rest is None:
        problems += [((key,), _Unknown(key, tuple(fields), _table_with(key, cls))) for key in sorted(extra)]
    if problems:
        raise StructureError(*problems)
    try:
        return cls(**given)
    except Exception as error:
        blamed = _blamed(error, cls)
        reason = str(error.args[0]) if error.args else repr(error)
        # The message of an attrs validator starts with the field, which the path names already.
        said = re.match(r"'\w+' must ", reason) if blamed else None
        what = f"must {reason[said.end() :]}" if said else f"is refused: {reason}"
        raise StructureError((blamed, what)) from error


def _each(items: Iterable[tuple[str, Any, Any]]) -> dict[str, Any]:
    """Every item of a collection (key, type, value) as its type; the problems of all come together."""
    done: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, kind, item in items:
        try:
            done[key] = structured(kind, item)
        except StructureError as error:
            problems += error.below((key,))
    if problems:
        raise StructureError(*problems)
    return done


def _frozen(value: Any) -> Any:
    try:
        return freeze(value)
    except TypeError as error:
        raise StructureError(((), f"is refused: {error}")) from None


def _said(root: KeyPath, label: str, below: KeyPath, what: What) -> tuple[KeyPath, str]:
    """A problem as a sentence, and the key where it stands."""
    path = (*root, *below)
    if isinstance(what, str):
        return path, f"{join_key(path) or 'the document'} {what}"
    if isinstance(what, _Brackets):
        meant, given = ("a list of tables", "one table") if what.many else ("one table", "a list of tables")
        header = f"[[{join_key(path)}]]" if what.many else f"[{join_key(path)}]"
        return path, f"{join_key(path)} must be {meant}, not {given}: write {header}"
    table = below[:-1] if isinstance(what, _Unknown) else below
    name = label if not table else f"key of {join_key((*root, *table))}"
    if isinstance(what, _Missing):
        return path, f"missing {name} {what.key!r}, which is required"
    said = unknown(name, what.key, what.known)
    if what.inside is not None:
        owner = (*path[:-1], what.inside)
        said += f". It is a key of {join_key(owner)}: write {join_key((*owner, what.key))}"
    return path, said


def _table_with(key: str, cls: type) -> str | None:
    """The table of a class that has a key which the class itself has not."""
    for field in attrs.fields(cls):
        inner = attrs.fields(field.type) if field.type is not None and attrs.has(field.type) else ()
        if key in {toml_key(other) for other in inner if not other.metadata.get(HIDDEN)}:
            return toml_key(field)
    return None


def _blamed(error: Exception, cls: type) -> KeyPath:
    """The field that a validator's message names, if it names one: validators say no more than that."""
    for field in attrs.fields(cls):
        if re.search(rf"\b{re.escape(field.name)}\b", str(error)):
            return (toml_key(field),)
    return ()


def toml_key(field: attrs.Attribute[Any]) -> str:
    """The key of a field in TOML."""
    return field.metadata.get(KEY, field.name)


def rest_field(cls: type) -> attrs.Attribute[Any] | None:
    """The field of a class that takes the keys that no other field takes."""
    return next((field for field in attrs.fields(cls) if field.metadata.get(REST)), None)


_UNIONS = (Union, types.UnionType)
_TABLES = (dict, Mapping)
_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}


def _item_kinds(args: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """The types of the items of a tuple, as many as there are where the type leaves their number open."""
    args = args or (Any, ...)
    return (args[0],) * count if args[1:] == (...,) else args


def _described(kind: Any) -> str:
    """A type in words for an error message."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(repr(arg) for arg in args)
    if origin in _UNIONS:
        return " or ".join(_described(arg) for arg in args if arg is not type(None))
    if origin is tuple and args[1:] == (...,):
        return f"a list (of {_described(args[0])})"
    if origin is tuple:
        return f"a list of {len(args)} ({', '.join(map(_described, args))})"
    return kind if isinstance(kind, str) else _WORDS.get(kind, "a table")


def _wrong(kind: Any, value: Any) -> StructureError:
    origin, args = get_origin(kind) or kind, get_args(kind)
    if isinstance(value, Mapping) and origin is tuple and args and _is_table(args[0]):
        return StructureError(((), _Brackets(many=True)))
    if _is_table(kind) and isinstance(value, list | tuple) and value and all(map(_is_mapping, value)):
        return StructureError(((), _Brackets(many=False)))
    text = repr(value)
    shown = text if len(text) < 60 else f"{text[:56]} ..."
    return StructureError(((), f"must be {_described(kind)}, not {shown}"))


def _is_table(kind: Any) -> bool:
    return attrs.has(kind) or (get_origin(kind) or kind) in _TABLES


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value has the form of a type, its contents aside."""
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return any(type(value) is type(arg) and value == arg for arg in args)
    if origin in _UNIONS:
        return any(_fits(value, arg) for arg in args)
    if origin is tuple:
        return isinstance(value, list | tuple) and len(_item_kinds(args, len(value))) == len(value)
    if kind in (bool, str, type(None)):
        return isinstance(value, kind)
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    return kind is Any or (_is_table(kind) and _is_mapping(value))
