"""The commented spec of an architecture that `peirce new spec` writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

import tomlkit

from peirce.commands import scope_for
from peirce.compose import resolve
from peirce.errors import PeirceError, PlanError
from peirce.registry import Registry, fields, first_line, load_spec, ready_specs
from peirce.spec import FORMAT, InputSpec, Regularisation, ScopeSpec, Spec, structure, to_plain

SCHEMA = "peirce.schema.json"
"""Where editors look for the schema, beside the spec; `peirce spec schema -o` writes it there."""
_SIZES = {"layers": 2, "unary": 64, "binary": 16, "heads": 4, "head_size": 16}
_SIZE = 32
"""Sizes that have no default."""
_WIDTH = 110


def spec_of(name: str, architecture: str, registry: Registry) -> str:
    """A spec of an architecture as TOML: every size and option with its meaning, and small sizes where there are none.

    Raises:
        RegistryError: there is no such architecture.
        PlanError: an architecture does not work with its own defaults.
    """
    part = registry.get("architectures", architecture)
    sizes = {each["name"]: _SIZES.get(each["name"], _SIZE) for each in fields(part.Dims) if each["required"]}
    lines = [
        f"#:schema {SCHEMA}",
        *_comment(f"{name}: {first_line(part)}"),
        f"format = {FORMAT}",
        "",
        "[model]",
        f"name = {_toml(name)}",
        f"architecture = {_toml(architecture)}",
        *_table("dims", part.Dims, sizes),
        *_table("options", part.Options, part.example),
        *_table("input", InputSpec, {"vocabulary": 1000}),
        *_table("scope", ScopeSpec, {"kind": scope_for(part)}),
        *_operators(part, registry),
        *_lists(part, registry),
        *_table("regularisation", Regularisation, {}),
    ]
    text = "\n".join([*lines, *_operator_options(part)]) + "\n"
    try:
        resolve(Spec.from_toml(text, f"{name}.toml"), registry)
    except PeirceError as error:
        raise PlanError(
            f"the architecture {architecture!r} does not work with its defaults alone, so that a spec needs more than "
            f"this command knows: {error}; `peirce describe {architecture}` tells what it takes"
        ) from error
    return text


def _table(key: str, cls: type[Any], given: Mapping[str, Any]) -> Iterator[str]:
    """A table with each field of a class below its meaning; a field that is absent by default stands in a comment."""
    items = fields(cls)
    if items or key == "dims":
        yield from ("", f"[model.{key}]")
    for each in items:
        meaning = each["meaning"]
        value = given.get(each["name"], each.get("default"))
        yield from _comment(f"{meaning[:1].upper()}{meaning[1:]}" if meaning else "")
        if value is None:
            yield f"# {each['name']} = ...    absent by default"
        else:
            yield f"{each['name']} = {_toml(value)}"


def _operators(part: Any, registry: Registry) -> Iterator[str]:
    """The operators of a layer, as the architecture has them by default, each with what it is."""
    if not part.layer:
        return
    yield from ("", "[model.operators]")
    named = [part.layer]
    if part.layer not in registry.names("operators"):
        named = [registry.letters[letter] for letter in part.layer if letter != "."]
    for name in (*named, *part.state):
        operator = registry.get("operators", name)
        letter = f"{operator.letter}: " if operator.letter else ""
        yield from _comment(f"{letter}{name}, {operator.typing}. {first_line(operator)}")
    yield ("# " if part.fixed_layer else "") + f"layer = {_toml(part.layer)}"


def _operator_options(part: Any) -> Iterator[str]:
    """The operators' options in the first ready spec of the architecture, which may need others than the defaults."""
    specs = (load_spec(path) for path in ready_specs().values())
    every = (spec.operators for spec in specs if spec.architecture == part.name)
    ready = next((operators for operators in every if operators.layer in (None, part.layer)), None)
    for name, options in (ready.options if ready else {}).items():
        yield from ("", f"[model.operators.options.{name}]")
        yield from (f"{key} = {_toml(value)}" for key, value in options.items())


def _lists(part: Any, registry: Registry) -> Iterator[str]:
    """Which positions, augmenters and heads there are to add."""
    for kind in ("positions", "augmenters", "heads"):
        parts: list[Any] = [entry.part for entry in registry.entries(kind)]
        if kind == "positions":
            parts = [each for each in parts if not part.places.isdisjoint(each.places())]
        if kind == "heads":
            options = structure(part.Options, part.example, where=str, label="option")
            gives = part.gives(options) | {"past"}  # which another scope gives
            parts = [each for each in parts if each.needs <= gives]
        if names := [each.name for each in parts]:
            about = f"{kind.capitalize()} to add, with their options below `use`: {', '.join(names)}."
            yield from ("", *_comment(about), f"# [[model.{kind}]]", f'# use = "{names[0]}"')


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)]


def _toml(value: Any) -> str:
    plain = to_plain(value)
    if isinstance(plain, Mapping):
        table = tomlkit.inline_table()
        table.update(plain)
        return table.as_string()
    return tomlkit.item(plain).as_string()
