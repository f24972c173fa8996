"""Specs whose parts do not fit are refused before a tensor exists, with the place and the reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from small_specs import FOLNET, PAPER_CJOIN, TRANSFORMER
from torch import Tensor

import peirce
from peirce.algebra import Scope
from peirce.compose import resolve
from peirce.errors import SpecError
from peirce.parts import Dims, Head, Operator, Reader, Writer
from peirce.registry import Registry, hookimpl
from peirce.spec import Spec
from peirce_basics.architectures.transformer import Transformer
from peirce_basics.heads.linear import Classification

CASES: list[tuple[str, Spec, Mapping[str, Any], list[str]]] = [
    (
        "place",
        TRANSFORMER,
        {"model.positions": [{"use": "distance"}]},
        ["distance", "binary", "transformer", "pair"],
    ),
    ("branch", TRANSFORMER, {"model.operators.layer": "jm.a"}, ["join", "assoc and join together (`j.a`)"]),
    ("causal cjoin", FOLNET, {"model.scope.kind": "causal"}, ["cjoin", "causal", 'premise = "paper"']),
    ("prefix cjoin", FOLNET, {"model.scope.kind": "prefix"}, ["cjoin", "prefix", 'premise = "paper"']),
    ("heads", TRANSFORMER, {"model.dims.heads": 5}, ["heads * head_size", "unary", "5"]),
    ("unknown option", FOLNET, {"model.positions": [{"use": "distance", "clop": 4}]}, ["clop", "clip"]),
    ("value", FOLNET, {"model.positions": [{"use": "distance", "clip": 1}]}, ["clip", ">= 2"]),
    ("unknown dimension", FOLNET, {"model.dims": {"layers": 1, "unery": 8}}, ["unery", "unary"]),
    (
        "options of an absent operator",
        FOLNET,
        {"model.operators": {"layer": "j.a", "options": {"cjoin": {}}}},
        ["cjoin", "does not have"],
    ),
    (
        "output prefixes",
        FOLNET,
        {"model.heads": [{"use": "mlm"}, {"use": "pair", "as": "mlm"}]},
        ["override model.heads", "the output prefix 'mlm' cannot be used here: model.heads.0 has it"],
    ),
    ("no pooled output", FOLNET, {"model.options.pooler": False}, ["pair", "pooled"]),
    (
        "pair position without attention",
        FOLNET,
        {"model.operators.layer": "m.t", "model.positions": [{"use": "shaw"}]},
        ["shaw", "assoc", "join"],
    ),
    (
        "activation of bool",
        FOLNET,
        {"model.operators.layer": [{"use": "join"}, {"use": "bool", "activation": "modus_ponens"}]},
        ["bool", "activation"],
    ),
    ("no mixing operator", FOLNET, {"model.operators.layer": [{"use": "bool"}]}, ["no operator that mixes"]),
    (
        "activation",
        FOLNET,
        {"model.operators.layer": [{"use": "join", "activation": "relu"}]},
        ["activation", "shifted_relu"],
    ),
]


@pytest.mark.parametrize(("spec", "change", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_misfit_is_named(
    spec: Spec, change: Mapping[str, Any], words: list[str], registry: Registry
) -> None:
    with pytest.raises(SpecError) as caught:
        resolve(spec.replace(change), registry)
    for word in words:
        assert word in str(caught.value)


def test_the_vocabulary_may_wait_but_not_for_ever(registry: Registry) -> None:
    spec = Spec.from_toml(FOLNET.to_toml().replace("vocabulary = 40\n", ""))
    plan = resolve(spec, registry)
    with pytest.raises(SpecError, match=r"it needs model\.input\.vocabulary"):
        _ = plan.dims.vocabulary
    with pytest.raises(SpecError, match="vocabulary is missing"):
        peirce.build(plan, registry=registry)
    known = resolve(spec.replace({"model.input.vocabulary": 9}), registry)
    assert known.dims.vocabulary == 9
    assert peirce.build(known, registry=registry).plan == known


def test_a_part_that_checks_the_vocabulary_is_asked_when_it_is_known(registry: Registry) -> None:
    class Names(Classification):
        """A stranger's, whose classes are tokens."""

        name = "names"

        @classmethod
        def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
            few = options.classes > dims.vocabulary
            return f"there are {dims.vocabulary} tokens for {options.classes} names" if few else None

    class Plugin:
        @staticmethod
        @hookimpl
        def register_heads() -> list[type[Head]]:
            return [Names]

    more = registry.completed(Plugin)
    spec = TRANSFORMER.replace({"model.heads": [{"use": "names", "classes": 40}]})
    unknown = Spec.from_toml(re.sub("vocabulary = .*\n", "", spec.to_toml()))
    assert resolve(unknown, more).heads[0].name == "names"
    with pytest.raises(SpecError, match="there are 9 tokens for 40 names"):
        resolve(unknown.replace({"model.input.vocabulary": 9}), more)


def test_all_else_of_a_spec_without_vocabulary_is_checked(registry: Registry) -> None:
    spec = Spec.from_toml(FOLNET.to_toml().replace("vocabulary = 40\n", ""))
    for change, nearest in ({"use": "jion"}, "join"), ({"use": "cjoin", "premiss": "paper"}, "premise"):
        with pytest.raises(SpecError, match=f"Did you mean '{nearest}'"):
            resolve(spec.replace({"model.operators.layer": [change]}), registry)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("jmc.atp", ["join", "mu", "cjoin", "assoc", "trans", "prod"]),
        ("cj.pa", ["cjoin", "join", "prod", "assoc"]),
        ("j", ["join"]),
        (".a", ["assoc"]),
    ],
)
def test_letters_stand_for_operators_in_order(text: str, names: list[str], registry: Registry) -> None:
    plan = resolve(FOLNET.replace({"model.operators": {"layer": text}}), registry)
    assert [planned.name for planned in plan.mixing] == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jx.a", r"unknown letter 'x' of the shorthand 'jx.a'. Known: a \(assoc\), .* t \(trans\)"),
        ("j.a.p", r"unknown letter '\.'"),
        ("j a", "unknown letter ' '"),
        ("ja.p", r"'a' \(assoc\) .* writes binary atoms, so it belongs to the right$"),
        ("jma", "so it belongs to the right; the shorthand has no dot, as in 'jmc.atp'"),
        ("j.am", r"'m' \(mu\) .* writes unary atoms, so it belongs to the left"),
        ("jj.a", r"'j' \(join\) stands twice"),
        ("", "names no operator"),
        (".", "names no operator"),
    ],
)
def test_a_mistake_in_a_shorthand_is_explained(text: str, message: str, registry: Registry) -> None:
    with pytest.raises(SpecError, match=rf"override model\.operators\.layer: .*{message}"):
        resolve(FOLNET.replace({"model.operators.layer": text}), registry)


class Crooked(Operator):
    """Declares fewer channels than it infers."""

    name = "crooked"
    typing = "B <- B x B"
    scope_rule = "pairwise"

    def kernel(self) -> Reader:
        return Reader(branch="B", shape={"d": 4})

    premise = kernel

    def output(self) -> Writer:
        return Writer(branch="B", shape={"d": 3})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return kernel * premise

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        raise AssertionError("never called")


class Mistyped(Crooked):
    """Its typing says otherwise than its readers."""

    name = "mistyped"
    typing = "U <- B x B"


class Careless(Crooked):
    """Its own code fails."""

    name = "careless"

    def output(self) -> Writer:
        return Writer(branch="B", shape={"d": self.dims.widths})  # type: ignore[attr-defined]


class StrangeOperators:
    @peirce.hookimpl
    def register_operators(self) -> list[type[Operator]]:
        return [Crooked, Mistyped, Careless]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("crooked", ["[2, 3, 3, 4]", "[2, 3, 3, 3]"]),
        ("mistyped", ["U <- B x B", "B <- B x B"]),
        ("careless", ["StrangeOperators", "AttributeError", "widths"]),
    ],
)
def test_operators_whose_outputs_do_not_fit_are_refused(name: str, words: list[str]) -> None:
    registry = Registry.of("peirce_folnet.plugin", "peirce_basics.plugin", StrangeOperators())
    spec = FOLNET.replace(
        {"model.operators.layer": [{"use": name}], "model.positions": [], "model.heads": []}
    )
    with pytest.raises(SpecError) as caught:
        resolve(spec, registry)
    for word in words:
        assert word in str(caught.value)


class OwnAttention(Transformer):
    """Computes attention itself, without operators."""

    name = "own_attention"
    layer = ""
    state = ()
    own_attention = True


class WithOwnAttention:
    @peirce.hookimpl
    def register_architectures(self) -> list[type[Transformer]]:
        return [OwnAttention]


def test_an_architecture_with_attention_of_its_own_has_pair_positions() -> None:
    registry = Registry.of("peirce_basics.plugin", WithOwnAttention())
    spec = TRANSFORMER.replace(
        {"model.architecture": "own_attention", "model.positions": [{"use": "shaw"}], "model.heads": []}
    )
    assert not (plan := resolve(spec, registry)).mixing
    assert [planned.name for planned in plan.positions] == ["shaw"]


def test_options_merge_from_the_class_to_the_layer(registry: Registry) -> None:
    spec = FOLNET.replace(
        {
            "model.operators": {
                "layer": [{"use": "cjoin", "batch_over": "heads"}, {"use": "cjoin"}],
                "options": {"cjoin": {"premise": "paper"}},
            }
        }
    )
    own, shared = (planned.options for planned in resolve(spec, registry).mixing)
    assert (own.premise, own.batch_over) == ("paper", "heads")
    assert (shared.premise, shared.batch_over) == ("paper", "size")


def test_a_plan_allocates_nothing(registry: Registry) -> None:
    with torch.device("meta"):
        huge = FOLNET.replace({"model.dims.unary": 1 << 20, "model.input.vocabulary": 1 << 30})
        plan = resolve(huge, registry)
    assert plan.dims == Dims(
        layers=2, unary=1 << 20, binary=6, heads=3, head_size=4, recurrent=1 << 20,
        feedforward_unary=1 << 22, feedforward_binary=24,
        vocabulary=1 << 30, token_types=2, max_length=32, pad_id=0, dropout=0.1,
    )  # fmt: skip


def test_causal_scopes_compose_with_the_paper_form(registry: Registry) -> None:
    plan = resolve(FOLNET.replace({"model.scope.kind": "causal", **PAPER_CJOIN}), registry)
    assert [planned.name for planned in plan.mixing] == ["join", "mu", "cjoin", "assoc", "trans", "prod"]
    assert [planned.name for planned in plan.state] == ["bool"]
