"""Layers that differ: recurrence, attention and FOLNet's operators in one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_specs import FOLNET, TRANSFORMER

import peirce
from peirce.compose import summarise
from peirce.errors import SpecError
from peirce.registry import Registry
from peirce.spec import Spec

CAUSAL = {"model.scope.kind": "causal", "model.heads": [{"use": "causal_lm"}], "model.dims.layers": 4}
STACKS: dict[str, tuple[Spec, list[dict[str, Any]]]] = {
    "folnet": (FOLNET, [{"layer": "gru"}, {"layer": "attention"}, {"layer": "jm.at"}, {"layer": "lstm"}]),
    "transformer": (TRANSFORMER, [{"layer": "lstm", "repeat": 3}, {"layer": "j.a"}]),
    "two of four": (TRANSFORMER, [{"layer": "gru", "state": []}, {"layer": "attention"}]),
}
WRONG: dict[str, tuple[Spec, dict[str, Any], str]] = {
    "no multiple": (FOLNET, {"layers": [{"layer": "gru", "repeat": 3}]}, "are 3 layers, .* is 4"),
    "both": (FOLNET, {"layer": "jm.at", "layers": [{"layer": "gru"}]}, "beside `layers`"),
    "two recurrences": (FOLNET, {"layers": [{"layer": [{"use": "gru"}, {"use": "join"}]}]}, "keep one of gru, join"),
    "relations": (TRANSFORMER, {"layers": [{"layer": "jm.a"}]}, "assoc and join together"),
    "state twice": (FOLNET, {"layer": [{"use": "join"}, {"use": "bool"}], "state": "bool"}, "in one of the two"),
    "state that mixes": (FOLNET, {"layer": "j.a", "state": "mu"}, "'mu' cannot be used here: it mixes tokens"),
    "letter": (FOLNET, {"layers": [{"layer": "j.a"}, {"layer": "jx.a"}]}, "unknown letter 'x' of the shorthand 'jx.a'"),
    "unknown state": (FOLNET, {"layer": "j.a", "state": ["boool"]}, "did you mean 'bool'|nearest.*bool|bool"),
}  # fmt: skip


def stack(name: str) -> Spec:
    base, layers = STACKS[name]
    return base.replace({**CAUSAL, "model.operators": {"layers": layers}})


@pytest.mark.parametrize("name", STACKS)
def test_tokens_one_by_one_are_as_one_pass(name: str, registry: Registry) -> None:
    model = peirce.build(stack(name), seed=0, registry=registry).eval().double()
    ids = torch.randint(1, 40, (2, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[True] * 7, [False, True, True, False, True, True, True]])
    whole = model(input_ids=ids, attention_mask=mask)["unary"]
    cache: dict[str, torch.Tensor] = {}
    atoms = []
    for at in range(7):
        step = {"input_ids": ids[:, at : at + 1], "attention_mask": mask[:, at : at + 1]}
        encoded, _, cache = model.network.advance(step, cache)
        atoms.append(encoded.unary)
    torch.testing.assert_close(torch.cat(atoms, 1), whole, rtol=1e-10, atol=1e-12)
    assert [spec.name for spec in model.network.cached_state()] == list(cache)
    for spec in model.network.cached_state():
        assert len(spec.dims) == cache[spec.name].dim()


@pytest.mark.parametrize("name", STACKS)
def test_every_layer_learns_and_is_saved(name: str, registry: Registry, tmp_path: Path) -> None:
    spec = stack(name)
    assert Spec.from_toml(spec.to_toml()) == spec
    model = peirce.build(spec, seed=0, registry=registry)
    ids = torch.randint(1, 40, (2, 7), generator=torch.Generator().manual_seed(0))
    outputs = model(input_ids=ids)
    model.loss("causal_lm", outputs, ids).backward()
    for number in range(4):
        own = [p.grad for n, p in model.named_parameters() if f"layers.{number}.operators" in n]
        assert own
        assert any(grad is not None and bool(grad.any()) for grad in own)
    model.eval().save(tmp_path / "model")
    again = peirce.load(tmp_path / "model", registry=registry).eval()
    assert torch.equal(again(input_ids=ids)["unary"], model(input_ids=ids)["unary"])


def test_layers_that_are_alike_are_as_one_layer(registry: Registry) -> None:
    one = FOLNET.replace({**CAUSAL, "model.operators": {"layer": "jm.at", "state": "bool"}})
    listed = one.replace({"model.operators": {"layers": [{"layer": "jm.at", "repeat": 2}]}})
    ids = torch.randint(1, 40, (2, 7), generator=torch.Generator().manual_seed(0))
    models = [peirce.build(spec, seed=3, registry=registry).eval() for spec in (one, listed)]
    assert torch.equal(*(model(input_ids=ids)["unary"] for model in models))


def test_a_decoder_may_have_recurrences(registry: Registry) -> None:
    spec = FOLNET.replace(
        {
            "model.architecture": "folnet_encoder_decoder",
            "model.operators": {"layers": [{"layer": "jm.at"}, {"layer": "gru"}]},
            "model.heads": [{"use": "causal_lm"}],
        }
    )
    model = peirce.build(spec, seed=0, registry=registry).eval().double()
    source, target = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 6, 7, 8]])
    whole = model(input_ids=source, decoder_input_ids=target)["unary"]
    part = model(input_ids=source, decoder_input_ids=target[:, :2])["unary"]
    torch.testing.assert_close(part, whole[:, :2])


def test_a_summary_shows_each_kind_of_layer_once(registry: Registry) -> None:
    spec = stack("two of four")
    rows = [
        (row["layers"], row["index"], row["name"]) for row in summarise(spec, registry=registry).operators
    ]
    assert rows == [("0, 2", 0, "gru"), ("1, 3", 0, "attention"), ("1, 3", 1, "bool")]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_mixture_is_named(name: str, registry: Registry) -> None:
    base, operators, said = WRONG[name]
    with pytest.raises(SpecError, match=said) as caught:
        peirce.build(base.replace({**CAUSAL, "model.operators": operators}), registry=registry)
    assert "model.operators" in str(caught.value)


def test_a_recurrence_is_refused_where_tokens_before_may_be_hidden(registry: Registry) -> None:
    spec = FOLNET.replace({"model.operators": {"layers": [{"layer": "gru"}]}})
    with pytest.raises(SpecError, match="the scope 'relation' may forbid some"):
        peirce.build(spec.replace({"model.scope.kind": "relation"}), registry=registry)
    with pytest.raises(SpecError, match="position 'same_text' may forbid some"):
        peirce.build(spec.replace({"model.positions": [{"use": "same_text"}]}), registry=registry)
