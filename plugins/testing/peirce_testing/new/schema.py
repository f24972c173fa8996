"""`peirce spec schema`: the JSON Schema of spec files, of the classes of a spec and the options of registered parts."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs
import typer

from peirce.errors import InputError
from peirce.files import explain_disk_errors, write_json
from peirce.parts import StateOperator
from peirce.registry import Registry, arguments, default_registry, first_line
from peirce.spec import (
    FORMAT,
    HIDDEN,
    REST,
    AugmenterSpec,
    HeadSpec,
    OperatorSpec,
    PartSpec,
    Spec,
    to_plain,
    toml_key,
)

Schema = dict[str, Any]

_PLAIN: Mapping[Any, Schema] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    Any: {},
}


def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The .json file to write it to.")
    ] = None,
) -> None:
    """Print or write the JSON Schema of spec files, with every registered part, for editors.

    A spec that begins with `#:schema FILE` is completed and checked by editors that know TOML schemas.
    """
    found = spec_schema(default_registry())
    if output is None:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    if not output.parent.is_dir():
        raise InputError(f"folder {output.parent} does not exist; create it, or write elsewhere")
    with explain_disk_errors(str(output)):
        write_json(output, found)
    usage = "editors check a spec in its folder that begins with this line"
    typer.echo(f"written to {output}; {usage}:\n#:schema ./{output.name}")


def spec_schema(registry: Registry) -> Schema:
    """The schema (draft 2020-12) of a spec file, with every part that a registry offers.

    Args:
        registry: whose parts may be used; their `Options` say what each takes.
    """

    def parts(kind: str) -> dict[str, type[Any]]:
        names = (*registry.names(kind), *sorted(registry.aliases(kind)))
        return {name: registry.get(kind, name) for name in names}

    operators, architectures = parts("operators"), parts("architectures")
    model = _object(Spec)
    properties = model["properties"]
    properties["architecture"]["enum"] = list(architectures)
    for kind, entry in (("positions", PartSpec), ("augmenters", AugmenterSpec), ("heads", HeadSpec)):
        properties[kind]["items"] = _one_of(entry, parts(kind))
    alike = properties["operators"]["properties"]
    states = [name for name, cls in operators.items() if issubclass(cls, StateOperator)]
    tables = _one_of(OperatorSpec, operators)
    # Nothing is required of options by name: the operator's own table may give the rest.
    options = _closed({name: {**_object(cls.Options), "required": []} for name, cls in operators.items()})
    for layer in (alike, alike["layers"]["items"]["properties"]):
        layer["options"] = options
        layer["layer"]["anyOf"] = [
            {"type": "string", "pattern": _shorthand(registry)},
            {"enum": [name for name in operators if name not in states]},
            {"type": "array", "items": tables},
        ]
        layer["state"]["anyOf"] = [
            {"enum": states},
            {"type": "array", "items": {"anyOf": [{"enum": states}, tables]}},
        ]
    complete: Schema = {"required": model.pop("required")}
    if architectures:
        complete["allOf"] = [
            {
                "if": {"required": ["architecture"], "properties": {"architecture": {"const": name}}},
                "then": {"properties": {"dims": _object(cls.Dims), "options": _object(cls.Options)}},
            }
            for name, cls in architectures.items()
        ]
    top_level: Schema = {
        "format": {"const": FORMAT, "description": "The version of this file format."},
        "extend": {
            "type": "string",
            "description": "A spec to start from: a path or the name of a ready spec.",
        },
        "model": model,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Peirce model spec",
        **_closed(top_level),
        "required": ["model"],
        # A spec that extends another gets its architecture and sizes from there.
        "if": {"not": {"required": ["extend"]}},
        "then": {"properties": {"model": complete}},
    }


def _shorthand(registry: Registry) -> str:
    sides: dict[str, str] = {"U": "", "B": ""}
    for letter, name in sorted(registry.letters.items()):
        sides[registry.get("operators", name).typing[0]] += re.escape(letter)
    left, right = (f"[{letters}]*" if letters else "" for letters in sides.values())
    return f"^(?=.*[^.]){left}(\\.{right})?$"


def _one_of(entry: type, parts: Mapping[str, type[Any]]) -> Schema:
    """A table whose `use` names one of the parts and whose other keys are that part's options."""
    common, choices = _object(entry), []
    for name, cls in parts.items():
        options = _object(cls.Options)
        table = _closed({**common["properties"], **options["properties"], "use": {"const": name}})
        required = [*common["required"], *options["required"]]
        choices.append({"title": name, "description": first_line(cls), **table, "required": required})
    return {"oneOf": choices} if choices else {"not": {}}


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
            schema["default"] = to_plain(field.default)
        properties[toml_key(field)] = schema
    return {"description": first_line(cls), **_closed(properties), "required": required}


def _closed(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


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
        items = [_type(arg) for arg in args]
        return {"type": "array", "prefixItems": items, "minItems": len(args), "maxItems": len(args)}
    if attrs.has(kind):
        return _object(kind)
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    values = args[1] if len(args) == 2 else Any
    return {"type": "object", "additionalProperties": _type(values)}
