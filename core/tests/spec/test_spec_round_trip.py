"""A spec is a value: written to TOML and read again it is the same, and nothing in it can be changed."""

from __future__ import annotations

import copy
import pickle
import tomllib
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from spec_strategies import specs

from peirce.spec import HeadSpec, OperatorSpec, OperatorsSpec, PartSpec, Spec, to_plain
from peirce.spec.values import FrozenDict


def typed(value: Any) -> Any:
    """A value in which 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value), repr(value)


@settings(deadline=None, max_examples=100)
@given(specs())
def test_a_spec_survives_its_toml(spec: Spec) -> None:
    text = spec.to_toml()
    again = Spec.from_toml(text)
    assert again == spec
    assert hash(again) == hash(spec)
    for name in ("dims", "options"):
        assert typed(to_plain(getattr(again, name))) == typed(to_plain(getattr(spec, name)))
    for mine, read in zip(spec.positions, again.positions, strict=True):
        assert typed(to_plain(read.options)) == typed(to_plain(mine.options))
    assert tomllib.loads(text)["format"] == 1


@settings(deadline=None, max_examples=30)
@given(specs())
def test_replacing_nothing_changes_nothing(spec: Spec) -> None:
    assert spec.replace({}) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert copy.deepcopy(spec) == spec


def small(**changes: Any) -> Spec:
    return Spec(**{"name": "a", "architecture": "folnet", "dims": {"layers": 2}, **changes})


def test_a_spec_is_frozen_to_the_leaves() -> None:
    given_options = {"ids": [1, [2]], "deep": {"x": 1}}
    spec = small(positions=[PartSpec(use="shaw", options=given_options)])
    given_options["ids"].append(3)  # type: ignore[attr-defined]
    options = spec.positions[0].options
    assert options == {"ids": (1, (2,)), "deep": {"x": 1}}
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        spec.name = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        options["clip"] = 1  # type: ignore[index]
    assert isinstance(options["deep"], FrozenDict)


def test_where_a_spec_was_read_is_no_part_of_it() -> None:
    spec = small()
    assert Spec.from_toml(spec.to_toml(), "one.toml") == Spec.from_toml(spec.to_toml(), "two.toml") == spec


def test_an_empty_layer_and_no_layer_are_different() -> None:
    empty = small(operators=OperatorsSpec(layer=()))
    assert Spec.from_toml(empty.to_toml()).operators.layer == ()
    assert Spec.from_toml(small().to_toml()).operators.layer is None


def test_a_head_is_called_as_its_part_unless_it_says_otherwise() -> None:
    assert HeadSpec(use="mlm") == HeadSpec(use="mlm", as_="mlm")
    spec = small(heads=[HeadSpec(use="pair", as_="sop"), HeadSpec(use="mlm")])
    assert 'as = "sop"' in spec.to_toml()
    assert spec.to_toml().count("as = ") == 1


@pytest.mark.parametrize("key", ["use", "as"])
def test_an_option_cannot_take_the_name_of_a_key(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        HeadSpec(use="mlm", options={key: 1})
    with pytest.raises(ValueError, match="activation"):
        OperatorSpec(use="join", options={"activation": "none"})


@pytest.mark.parametrize("value", [None, object(), {1: 2}])
def test_what_toml_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="spec"):
        FrozenDict({"x": value})
