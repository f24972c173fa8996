"""Strict structuring: plain TOML values into attrs classes, every mistake with its key and its place."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, Union, get_args, get_origin

import attrs
from cattrs import AttributeValidationNote, ClassValidationError, Converter, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override

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


Problem = tuple[KeyPath, "str | _Unknown | _Missing | _Brackets"]


class ProblemsError(ValueError):
    """What is wrong inside one value: each problem's path below that value, and what it is."""

    def __init__(self, items: Sequence[Problem]) -> None:
        super().__init__("; ".join(str(what) for _, what in items))
        self.items = tuple(items)


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
        return CONVERTER.structure(value, cls)
    except Exception as error:
        lines = [_sentence(where, path, label, below, what) for below, what in _problems(error, cls)]
        raise SpecError("\n".join(lines)) from error


def _sentence(
    where: Located, root: KeyPath, label: str, below: KeyPath, what: str | _Unknown | _Missing | _Brackets
) -> str:
    path = (*root, *below)
    if isinstance(what, str):
        return f"{where.at(path)}: {join_key(path) or 'the document'} {what}"
    if isinstance(what, _Brackets):
        meant, given = ("a list of tables", "one table") if what.many else ("one table", "a list of tables")
        header = f"[[{join_key(path)}]]" if what.many else f"[{join_key(path)}]"
        return f"{where.at(path)}: {join_key(path)} must be {meant}, not {given}: write {header}"
    table = below[:-1] if isinstance(what, _Unknown) else below
    name = label if not table else f"key of {join_key((*root, *table))}"
    if isinstance(what, _Missing):
        return f"{where.at(path)}: missing {name} {what.key!r}, which is required"
    said = unknown(name, what.key, what.known)
    if what.inside is not None:
        owner = (*path[:-1], what.inside)
        said += f". It is a key of {join_key(owner)}: write {join_key((*owner, what.key))}"
    return f"{where.at(path)}: {said}"


def _problems(error: BaseException, cls: type) -> Iterator[Problem]:
    """The problems that an exception of the converter stands for, with paths below the structured value."""
    if isinstance(error, ProblemsError):
        yield from error.items
    elif isinstance(error, ClassValidationError):
        noted, others = error.group_exceptions()
        for inner, note in noted:
            yield from _of_field(inner, note, error.cl)
        for inner in others:
            yield from _problems(inner, error.cl)
    elif isinstance(error, ForbiddenExtraKeysError):
        known = tuple(toml_key(field) for field in attrs.fields(cls) if not field.metadata.get(HIDDEN))
        for key in sorted(error.extra_fields):
            yield (key,), _Unknown(key, known, _table_with(key, cls))
    else:
        path = _blamed(error, cls)
        reason = str(error.args[0]) if error.args else repr(error)
        # The message of an attrs validator starts with the field, which the path names already.
        said = re.match(r"'\w+' must ", reason) if path else None
        yield path, f"must {reason[said.end() :]}" if said else f"is refused: {reason}"


def _table_with(key: str, cls: type) -> str | None:
    """The table of a class that has a key which the class itself has not."""
    for field in attrs.fields(cls):
        inner = attrs.fields(field.type) if field.type is not None and attrs.has(field.type) else ()
        if key in {toml_key(other) for other in inner if not other.metadata.get(HIDDEN)}:
            return toml_key(field)
    return None


def _of_field(error: BaseException, note: AttributeValidationNote, cls: type) -> Iterator[Problem]:
    key = toml_key(getattr(attrs.fields(cls), note.name))
    if isinstance(error, KeyError):
        yield (), _Missing(key)
        return
    for below, what in _problems(error, cls):
        yield (key, *below), what


def _blamed(error: BaseException, cls: type) -> KeyPath:
    """The field that a validator's message names, if it names one: validators say no more than that."""
    if not attrs.has(cls):
        return ()
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


# Types. TOML has kinds of values of its own, so nothing is coerced; only an integer may stand for a float.


def describe(kind: Any) -> str:
    """A type in words for an error message."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(repr(arg) for arg in args)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(arg) for arg in args if arg is not type(None))
    if origin is tuple:
        if args[1:] == (Ellipsis,):
            return f"a list (of {describe(args[0])})"
        return f"a list of {len(args)} ({', '.join(describe(arg) for arg in args)})"
    if isinstance(kind, str):
        return kind
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
    return names.get(kind, "a table")


def _wrong(kind: Any, value: object) -> ProblemsError:
    if isinstance(value, Mapping) and get_origin(kind) is tuple and _is_table(get_args(kind)[0]):
        return ProblemsError([((), _Brackets(many=True))])
    if (
        _is_table(kind)
        and isinstance(value, list | tuple)
        and value
        and all(isinstance(v, Mapping) for v in value)
    ):
        return ProblemsError([((), _Brackets(many=False))])
    text = repr(value)
    shown = text if len(text) < 60 else f"{text[:56]} ..."
    return ProblemsError([((), f"must be {describe(kind)}, not {shown}")])


def _is_table(kind: Any) -> bool:
    return (isinstance(kind, type) and attrs.has(kind)) or (get_origin(kind) or kind) in (Mapping, dict)


def _fits(value: object, kind: Any) -> bool:
    """Whether a value has the form of a type, its contents aside."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return any(type(value) is type(arg) and value == arg for arg in args)
    if origin in (Union, types.UnionType):
        return any(_fits(value, arg) for arg in args)
    if origin is tuple or kind is tuple:
        return isinstance(value, list | tuple)
    if kind is bool or kind is str:
        return isinstance(value, kind)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is None or kind is type(None):
        return value is None
    return kind is Any or isinstance(value, Mapping)


Hook = Callable[[Any, Any], Any]


def _plain(value: Any, kind: Any) -> Any:
    if not _fits(value, kind):
        raise _wrong(kind, value)
    if kind is int and not -(2**63) <= value < 2**63:
        # What TOML promises, and what torch can hold.
        raise _wrong("an integer of at most 64 bits", value)
    if kind is float:
        if not abs(value) <= sys.float_info.max:
            raise _wrong("a finite number", value)
        return float(value)
    return value


def _union(value: Any, kind: Any) -> Any:
    arms = sorted(get_args(kind), key=lambda arm: arm is float)
    for arm in arms:
        if _fits(value, arm):
            return value if value is None else CONVERTER.structure(value, arm)
    raise _wrong(kind, value)


def _tuple(value: Any, kind: Any) -> Any:
    args = get_args(kind) or (Any, Ellipsis)
    variable = args[1:] == (Ellipsis,)
    if not _fits(value, kind) or (not variable and len(args) != len(value)):
        raise _wrong(kind, value)
    kinds = [args[0]] * len(value) if variable else args
    return tuple(_each(zip(map(str, range(len(value))), value, kinds, strict=True)).values())


def _mapping(value: Any, kind: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _wrong(kind, value)
    inner = (get_args(kind) or (str, Any))[1]
    return _frozen(_each((key, item, inner) for key, item in value.items()))


def _anything(value: Any, kind: Any) -> Any:
    return _frozen(value)


def _frozen(value: Any) -> Any:
    try:
        return freeze(value)
    except TypeError as error:
        raise ProblemsError([((), f"is refused: {error}")]) from None


def _each(items: Any) -> dict[str, Any]:
    """Structure every item of a collection, and raise all of their problems together."""
    done: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, item, kind in items:
        try:
            done[key] = CONVERTER.structure(item, kind)
        except Exception as error:
            problems += [((key, *below), what) for below, what in _problems(error, kind)]
    if problems:
        raise ProblemsError(problems)
    return done


def _attrs(cls: type) -> Hook:
    """The hook for an attrs class: a table, its keys checked, the rest of them gathered if a field asks."""
    attrs.resolve_types(cls)
    renamed: dict[str, Any] = {
        field.name: override(rename=field.metadata.get(KEY), omit=field.metadata.get(HIDDEN, False))
        for field in attrs.fields(cls)
    }
    inner: Callable[[Any, Any], Any] = make_dict_structure_fn(
        cls, CONVERTER, _cattrs_forbid_extra_keys=True, **renamed
    )
    rest = rest_field(cls)
    own = {toml_key(field) for field in attrs.fields(cls) if field is not rest}

    def hook(value: Any, kind: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _wrong(cls, value)
        if rest is not None:
            gathered = {key: item for key, item in value.items() if key not in own}
            try:
                freeze(gathered)
            except TypeError:
                _each((key, item, Any) for key, item in gathered.items())
            value = {**{key: item for key, item in value.items() if key in own}, rest.name: gathered}
        return inner(value, kind)

    return hook


def _is(*origins: Any) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) in origins or kind in origins


def _converter() -> Converter:
    # Hooks that are registered later are asked first.
    converter = Converter(detailed_validation=True, forbid_extra_keys=True)
    converter.register_structure_hook_factory(attrs.has, _attrs)
    for plain in (int, float, bool, str):
        converter.register_structure_hook(plain, _plain)
    converter.register_structure_hook_func(_is(Literal), _plain)
    converter.register_structure_hook_func(_is(Union, types.UnionType), _union)
    converter.register_structure_hook_func(_is(tuple), _tuple)
    converter.register_structure_hook_func(_is(Mapping, dict), _mapping)
    converter.register_structure_hook_func(lambda kind: kind is Any, _anything)
    return converter


CONVERTER = _converter()
