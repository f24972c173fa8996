"""Strict structuring: plain TOML values into attrs classes, every mistake with its key and its place."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from itertools import count, repeat
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs

from peirce.errors import SpecError, unknown
from peirce.spec.documents import KeyPath, join_key, split_key
from peirce.spec.values import freeze, toml_key

T = TypeVar("T")
Problem = tuple[KeyPath, str]

REST = "rest"
"""Metadata of a field that takes every key of its table that no other field takes."""
HIDDEN = "hidden"
"""Metadata of a field that is not a key of the table."""

_UNIONS = (Union, types.UnionType)
_TABLES = (dict, Mapping)
_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
_LISTS = {int: "[1, 2]", float: "[0.5, 1]", bool: "[true, false]", str: '["a", "b"]'}
"""A list of each, as it is written."""


class StructureError(ValueError):
    """What is wrong inside a value: the key of each problem, and a sentence."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(sentence for _, sentence in problems))
        self.problems = problems


def structure(
    cls: type[T], value: object, *, where: Callable[[KeyPath], str], path: str = "", label: str
) -> T:
    """Make an instance of an attrs class from plain values, strictly.

    Args:
        cls: an attrs class of int, float, bool, str, Literal, unions, tuples, mappings and attrs classes.
        value: the table.
        where: finds the file and line of a key, such as `Spec.at`.
        path: the table's dotted key in the document, such as `model.positions.0`.
        label: what a key of the table is called in an error, such as `option of position 'shaw'`.

    Raises:
        SpecError: unknown, missing or wrong keys, all of them, each with its location.
    """
    try:
        return structure_value(cls, value, split_key(path) if path else (), label)
    except StructureError as error:
        raise SpecError("\n".join(f"{where(key)}: {message}" for key, message in error.problems)) from error


def structure_value(kind: Any, value: Any, path: KeyPath = (), label: str | None = None) -> Any:
    """A plain value as a type. Nothing is coerced, since TOML has kinds of its own; an integer may stand for a float.

    Args:
        kind, value: a type such as `structure` takes, and what should be one.
        path: the value's key in its document.
        label: what a key of the value is called, if it is a table; `key of PATH` if None.

    Raises:
        StructureError: the value is not of the type; the error lists every problem.
    """
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin in _UNIONS:
        for arm in sorted(args, key=lambda arm: arm is float):
            if _fits(value, arm):
                return structure_value(arm, value, path, label)
    if not _fits(value, kind):
        raise StructureError((path, _type_message(kind, value, path)))
    if attrs.has(origin):
        return _instance(origin, value, path, label or (f"key of {join_key(path)}" if path else "key"))
    if origin is tuple:
        kinds = args if args and args[1:] != (...,) else repeat(args[0] if args else Any)
        return tuple(_structure_items(zip(map(str, count()), kinds, value, strict=False), path).values())
    if origin in _TABLES:
        value = _structure_items(((key, args[1] if args else Any, item) for key, item in value.items()), path)
    # The range of integers is what TOML promises, and what torch can hold.
    if kind is int and not -(2**63) <= value < 2**63:
        raise StructureError((path, _must_be(path, "an integer of at most 64 bits", value)))
    if kind is float and not abs(value) <= sys.float_info.max:
        raise StructureError((path, _must_be(path, "a finite number", value)))
    if origin in _TABLES or kind is Any:
        try:
            return freeze(value)
        except TypeError as error:
            raise StructureError((path, f"{join_key(path)} is refused: {error}")) from None
    return float(value) if kind is float else value


def _instance(cls: type, table: Mapping[str, Any], path: KeyPath, label: str) -> Any:
    """An instance of an attrs class from a table, its keys checked; a field may ask for all that are left."""
    attrs.resolve_types(cls)
    rest = rest_field(cls)
    fields = {
        toml_key(field): field
        for field in attrs.fields(cls)
        if field.init and field is not rest and not field.metadata.get(HIDDEN)
    }
    extra = [key for key in table if key not in fields]
    problems: list[Problem] = [
        (path, f"missing {label}: {key!r}, which is required")
        for key, field in fields.items()
        if key not in table and field.default is attrs.NOTHING
    ]
    if rest is None:
        problems += [
            ((*path, key), _unknown_key_message(key, cls, tuple(fields), path, label))
            for key in sorted(extra)
        ]
        table = {key: item for key, item in table.items() if key in fields}
    kinds = {key: field.type for key, field in fields.items()}
    values = _structure_items(
        ((key, kinds.get(key, Any), item) for key, item in table.items()), path, problems
    )
    given = {field.alias: values[key] for key, field in fields.items() if key in values}
    if rest is not None:
        given[rest.alias] = {key: values[key] for key in extra}
    try:
        return cls(**given)
    except Exception as error:
        reason = str(error.args[0]) if error.args else repr(error)
        # Only the message of a validator, which starts with the field's name, tells which field it refuses.
        blamed = next((f for f in attrs.fields(cls) if re.search(rf"\b{f.name}\b", reason)), None)
        at = path if blamed is None else (*path, toml_key(blamed))
        message = reason if blamed is None else re.sub(r"^'\w+' must ", "must ", reason)
        message = message if message.startswith("must ") else f"is refused: {reason}"
        raise StructureError((at, f"{join_key(at) or 'the document'} {message}")) from error


def _structure_items(
    items: Iterable[tuple[str, Any, Any]], path: KeyPath, problems: Iterable[Problem] = ()
) -> dict[str, Any]:
    """Every item of a collection (key, type, value) as its type; the problems of all come together."""
    done: dict[str, Any] = {}
    problems = list(problems)
    for key, kind, item in items:
        try:
            done[key] = structure_value(kind, item, (*path, key))
        except StructureError as error:
            problems += error.problems
    if problems:
        raise StructureError(*problems)
    return done


def _unknown_key_message(key: str, cls: type, known: tuple[str, ...], path: KeyPath, label: str) -> str:
    """The sentence for an unknown key, with the inner table that it would be right in, if there is one."""
    message = unknown(label, key, known)
    for field in attrs.fields(cls):
        inner = attrs.fields(field.type) if field.type is not None and attrs.has(field.type) else ()
        if key in {toml_key(other) for other in inner if not other.metadata.get(HIDDEN)}:
            owner = (*path, toml_key(field))
            return f"{message}. It is a key of {join_key(owner)}: write {join_key((*owner, key))}"
    return message


def rest_field(cls: type) -> attrs.Attribute[Any] | None:
    """The field of a class that takes the keys that no other field takes."""
    return next((field for field in attrs.fields(cls) if field.metadata.get(REST)), None)


def _type_words(kind: Any) -> str:
    """A type in words for an error message."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(repr(arg) for arg in args)
    if origin in _UNIONS:
        return " or ".join(_type_words(arg) for arg in args if arg is not type(None))
    if origin is tuple and args[1:] == (...,):
        return f"a list such as {_LISTS.get(args[0], '[{ ... }]')}"
    if origin is tuple:
        return f"a list of {len(args)} ({', '.join(map(_type_words, args))})"
    return _WORDS.get(kind, "a table")


def _type_message(kind: Any, value: Any, path: KeyPath) -> str:
    """The message for a value of the wrong type; TOML's two kinds of brackets are easily mixed up."""
    args, key = get_args(kind), join_key(path)
    if isinstance(value, Mapping) and get_origin(kind) is tuple and _is_table(args[0]):
        return f"{key} must be a list of tables, not one table: write [[{key}]]"
    if _is_table(kind) and isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        return f"{key} must be one table, not a list of tables: write [{key}]"
    return _must_be(path, _type_words(kind), value)


def _must_be(path: KeyPath, wanted: str, value: Any) -> str:
    shown = repr(value)
    shown = shown if len(shown) < 60 else f"{shown[:56]} ..."
    return f"{join_key(path) or 'the document'} must be {wanted}, not {shown}"


def _is_table(kind: Any) -> bool:
    return attrs.has(kind) or (get_origin(kind) or kind) in _TABLES


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value has the form of a type, its contents aside."""
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return any(type(value) is type(arg) and value == arg for arg in args)
    if origin in _UNIONS:
        return any(_fits(value, arg) for arg in args)
    if origin is tuple:
        return isinstance(value, list | tuple) and (args[1:] == (...,) or len(args or value) == len(value))
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    return kind is Any or isinstance(value, Mapping if _is_table(kind) else kind)
