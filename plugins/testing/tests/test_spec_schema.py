"""The schema that editors use takes what `peirce spec check` takes, and marks the mistakes that it can see."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from attrs import frozen
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from peirce.commands.main import command_line
from peirce.registry import Registry, arguments, default_registry, load_spec, ready_specs
from peirce_testing import spec_schema
from peirce_testing.new.schema import _type


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = spec_schema(default_registry())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(json.loads(json.dumps(schema)))


@pytest.mark.parametrize("name", sorted(ready_specs()))
def test_ready_specs_are_valid_as_written_and_as_resolved(name: str, validator: Draft202012Validator) -> None:
    validator.validate(tomllib.loads(ready_specs()[name].read_text()))
    validator.validate(tomllib.loads(load_spec(name).to_toml()))


def test_every_registered_part_can_be_used(validator: Draft202012Validator) -> None:
    registry = default_registry()
    document = tomllib.loads(load_spec("folnet-base").to_toml())
    values: Mapping[str, Any] = {"integer": 1, "number": 1.0, "boolean": True, "string": "x"}
    schema: Any = validator.schema
    for kind in ("positions", "augmenters", "heads"):
        assert registry.names(kind)
        items = schema["properties"]["model"]["properties"][kind]["items"]["oneOf"]
        assert [choice["title"] for choice in items] == list(registry.names(kind))
        tables = [
            {key: values[choice["properties"][key]["type"]] for key in choice["required"] if key != "use"}
            | {"use": choice["title"]}
            for choice in items
        ]
        validator.validate({**document, "model": {**document["model"], kind: tables}})
    operators = [{"use": name} for name in registry.names("operators")]
    validator.validate({**document, "model": {**document["model"], "operators": {"layer": operators}}})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("format", 2),
        ("nodel", {}),
        ("model.nme", "x"),
        ("model.architecture", "folnot"),
        ("model.dims.layrs", 2),
        ("model.dims.layers", "2"),
        ("model.dims", {"layers": 2}),
        ("model.scope.kind", "casual"),
        ("model.operators.layer", "ja.p"),
        ("model.operators.layer", "j.x"),
        ("model.operators.layer", "."),
        ("model.operators.layer", ""),
        ("model.operators.layer", [{"use": "jion"}]),
        ("model.operators.options.jion", {}),
        ("model.positions", [{"use": "distance", "clp": 3}]),
        ("model.positions", [{"use": "distanse"}]),
        ("model.positions", [{"clip": 3}]),
        ("model.heads", [{"use": "mlm", "as": 3}]),
        ("model.input.vocabulary", "many"),
    ],
)
def test_mistakes_are_marked(path: str, value: Any, validator: Draft202012Validator) -> None:
    document = copy.deepcopy(tomllib.loads(load_spec("folnet-base").to_toml()))
    assert validator.is_valid(document)
    *tables, key = path.split(".")
    node = document
    for table in tables:
        node = node.setdefault(table, {})
    node[key] = value
    assert not validator.is_valid(document)


def test_a_spec_that_extends_another_may_leave_the_rest_to_it(validator: Draft202012Validator) -> None:
    validator.validate({"extend": "folnet-base", "model": {"dims": {"layers": 2}}})
    assert not validator.is_valid({"model": {"dims": {"layers": 2}}})


@frozen(kw_only=True)
class Options:
    """Options in the house style.

    Args:
        clip: how far
            distances count.
        terms: which terms.
    """

    clip: int
    terms: Literal["key", "value"] = "key"


def test_types_and_their_documentation_are_translated() -> None:
    assert arguments(Options) == {"clip": "how far distances count.", "terms": "which terms."}
    assert _type(int | None) == {"type": "integer"}
    assert _type(int | str) == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert _type(tuple[int, ...]) == {"type": "array", "items": {"type": "integer"}}
    assert _type(Mapping[str, float]) == {"type": "object", "additionalProperties": {"type": "number"}}
    pair = _type(tuple[int, str])
    assert Draft202012Validator(pair).is_valid([1, "a"])
    assert not Draft202012Validator(pair).is_valid([1])
    assert _type(Options) == {
        "description": "Options in the house style.",
        "type": "object",
        "properties": {
            "clip": {"type": "integer", "description": "how far distances count."},
            "terms": {"enum": ["key", "value"], "default": "key", "description": "which terms."},
        },
        "additionalProperties": False,
        "required": ["clip"],
    }


def test_a_registry_without_parts_has_a_schema_that_takes_none() -> None:
    schema = spec_schema(Registry.of())
    Draft202012Validator.check_schema(schema)
    items = schema["properties"]["model"]["properties"]["heads"]["items"]
    assert not Draft202012Validator(items).is_valid({"use": "mlm"})


def test_editors_know_the_options_of_a_layer(registry: Registry) -> None:
    operators = spec_schema(registry)["properties"]["model"]["properties"]["operators"]["properties"]
    entry = operators["layers"]["items"]["properties"]
    assert entry["options"] == operators["options"]
    assert "activation" in entry["options"]["properties"]["bool"]["properties"]


def test_the_schema_is_printed_as_json() -> None:
    result = CliRunner().invoke(command_line(), ["spec", "schema"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["$schema"].endswith("2020-12/schema")
