"""The JSON Schema of spec files, for editors: from the classes of a spec and the options of registered parts."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping
from inspect import getdoc
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import attrs

from peirce.parts import RecurrentOperator
from peirce.registry import arguments
from peirce.spec import FORMAT, HIDDEN, REST, HeadSpec, OperatorSpec, PartSpec, Spec, thaw, toml_key

if TYPE_CHECKING:
    from peirce.registry import Registry

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_PLAIN: Mapping[Any, Schema] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    Any: {},
}


def spec_schema(registry: Registry) -> Schema:
    """The schema (draft 2020-12) of a spec file, with every part that a registry offers.

    Args:
        registry: whose parts may be used; their `Options` say what each takes.
    """

    def parts(kind: str) -> list[tuple[tuple[str, ...], type[Any]]]:
        return [(_names(registry, kind, name), registry.get(kind, name)) for name in registry.names(kind)]

    operators = parts("operators")
    architectures = parts("architectures")
    model = _object(Spec)
    properties = model["properties"]
    properties["architecture"]["enum"] = [name for names, _ in architectures for name in names]
    for kind, entry in (("positions", PartSpec), ("augmenters", PartSpec), ("heads", HeadSpec)):
        properties[kind]["items"] = _one_of(entry, parts(kind))
    layers = properties["operators"]["properties"]
    layers["layer"] = {
        **layers["layer"],
        "anyOf": [
            {"type": "string", "pattern": _shorthand(registry)},
            {
                "enum": [
                    name for names, cls in operators if issubclass(cls, RecurrentOperator) for name in names
                ]
            },
            {"type": "array", "items": _one_of(OperatorSpec, operators)},
        ],
    }
    layers["options"] = _closed(
        {name: _optional(_object(cls.Options)) for names, cls in operators for name in names}
    )
    complete: Schema = {"required": model.pop("required")}
    if architectures:
        complete["allOf"] = [_sizes(*each) for each in architectures]
    return {
        "$schema": DIALECT,
        "title": "Peirce model spec",
        "type": "object",
        "properties": {
            "format": {"const": FORMAT, "description": "The version of this file format."},
            "extend": {
                "type": "string",
                "description": "A spec to start from: a path or the name of a ready spec.",
            },
            "model": model,
        },
        "required": ["model"],
        "additionalProperties": False,
        # A spec that extends another gets its architecture and sizes from there.
        "if": {"not": {"required": ["extend"]}},
        "then": {"properties": {"model": complete}},
    }


def _names(registry: Registry, kind: str, name: str) -> tuple[str, ...]:
    """A part's own name and the aliases of it."""
    aliases = sorted(alias for alias, target in registry.aliases(kind).items() if target == name)
    return (name, *aliases)


def _shorthand(registry: Registry) -> str:
    sides: dict[str, str] = {"U": "", "B": ""}
    for letter, name in sorted(registry.letters.items()):
        sides[registry.get("operators", name).typing[0]] += re.escape(letter)
    left, right = (f"[{letters}]*" if letters else "" for letters in sides.values())
    return f"^(?=.*[^.]){left}(\\.{right})?$"


def _one_of(entry: type, parts: Iterable[tuple[tuple[str, ...], type[Any]]]) -> Schema:
    """A table whose `use` names one of the parts and whose other keys are that part's options."""
    own = _object(entry)
    choices = []
    for names, cls in parts:
        options = _object(cls.Options)
        use = {"const": names[0]} if len(names) == 1 else {"enum": list(names)}
        choices.append(
            {
                "title": names[0],
                "description": _summary(cls),
                "type": "object",
                "properties": {**own["properties"], **options["properties"], "use": use},
                "required": [*own["required"], *options["required"]],
                "additionalProperties": False,
            }
        )
    return {"oneOf": choices} if choices else {"not": {}}


def _sizes(names: tuple[str, ...], cls: type[Any]) -> Schema:
    """What an architecture asks of `[model.dims]` and `[model.options]`."""
    return {
        "if": {"required": ["architecture"], "properties": {"architecture": {"enum": list(names)}}},
        "then": {"properties": {"dims": _object(cls.Dims), "options": _object(cls.Options)}},
    }


def _object(cls: type) -> Schema:
    """The schema of a table that an attrs class is read from."""
    attrs.resolve_types(cls)
    described = arguments(cls)
    properties: dict[str, Schema] = {}
    required = []
    for field in attrs.fields(cls):
        if field.metadata.get(HIDDEN) or field.metadata.get(REST):
            continue
        schema = _type(field.type)
        if description := described.get(field.name):
            schema["description"] = description
        if field.default is attrs.NOTHING:
            required.append(toml_key(field))
        elif not isinstance(field.default, attrs.Factory) and field.default is not None:  # type: ignore[arg-type]
            schema["default"] = thaw(field.default)
        properties[toml_key(field)] = schema
    return {"description": _summary(cls), **_closed(properties), "required": required}


def _closed(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _optional(schema: Schema) -> Schema:
    """The same table with nothing required: the layer's own table may give the rest."""
    return {key: value for key, value in schema.items() if key != "required"}


def _type(kind: Any) -> Schema:
    """The schema of a type; None is an absent key in TOML, so it adds nothing."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, types.UnionType):
        arms = [_type(arg) for arg in args if arg is not type(None)]
        return arms[0] if len(arms) == 1 else {"anyOf": arms}
    if origin is tuple:
        if args[1:] == (Ellipsis,):
            return {"type": "array", "items": _type(args[0])}
        return {
            "type": "array",
            "prefixItems": [_type(arg) for arg in args],
            "minItems": len(args),
            "maxItems": len(args),
        }
    if attrs.has(kind):
        return _object(kind)
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    values = args[1] if len(args) == 2 else Any
    return {"type": "object", "additionalProperties": _type(values)}


def _summary(cls: type) -> str:
    """The first sentence of a class's documentation."""
    text = " ".join((getdoc(cls) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.:;]) ", text)[0].rstrip(":;") if text else cls.__name__
