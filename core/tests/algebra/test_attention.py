"""Weights of attention are those that the network sums with, and reading them changes nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_specs import FOLNET, PAPER_CJOIN, TRANSFORMER
from torch import Tensor

from peirce.algebra import Attended, BetweenTokens, attention_of, between_tokens
from peirce.compose import build
from peirce.model import Model
from peirce.registry import Registry
from peirce.spec import Spec

SPECS = {"folnet": FOLNET, "transformer": TRANSFORMER}
WIDE = {"model.regularisation.init_std": 0.3}


def _model(spec: Spec, registry: Registry, **changes: Any) -> Model:
    return build(spec.replace({**WIDE, **changes}), registry=registry, dtype=torch.float64).eval()


def _inputs(lengths: list[int]) -> dict[str, Tensor]:
    longest = max(lengths)
    ids = torch.randint(40, (len(lengths), longest), generator=torch.Generator().manual_seed(longest))
    real = torch.arange(longest) < torch.tensor(lengths).unsqueeze(1)
    return {"input_ids": ids, "attention_mask": real}


@pytest.mark.parametrize("kind", ["bidirectional", "causal"])
@pytest.mark.parametrize("name", SPECS)
def test_rows_sum_to_one_over_their_scope(name: str, kind: str, registry: Registry) -> None:
    changes = {"model.scope.kind": kind, **(PAPER_CJOIN if name == "folnet" else {})}
    model = _model(SPECS[name], registry, **changes)

    @given(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    def holds(lengths: list[int]) -> None:
        inputs = _inputs(lengths)
        with torch.no_grad(), attention_of(model) as read:
            model.network(inputs)
        real = inputs["attention_mask"]
        pairs = real.unsqueeze(2) & real.unsqueeze(1)
        if kind == "causal":
            pairs = pairs.tril()
        assert [each.place.split(".")[:3] for each in read] == [
            ["network", "layers", str(i)] for i in range(2)
        ]
        for _, weights in read:
            assert weights.shape == (*pairs.shape, 3)
            assert torch.equal(weights > 0, pairs.unsqueeze(-1).expand_as(weights))
            sums = pairs.any(2, keepdim=True).to(weights.dtype).expand(-1, -1, 3)
            torch.testing.assert_close(weights.sum(2), sums)

    holds()


def test_a_transformer_without_positions_has_the_softmax_of_scaled_products(registry: Registry) -> None:
    model = _model(TRANSFORMER, registry)
    for name, parameter in model.named_parameters():
        if ".keys." in name:
            torch.nn.init.zeros_(parameter)
    atoms: list[Tensor] = []
    for layer in model.network.layers:  # type: ignore[union-attr]
        layer.attention.register_forward_pre_hook(lambda module, given: atoms.append(given[0]))  # type: ignore[operator, union-attr]
    with torch.no_grad(), attention_of(model) as read:
        model(**_inputs([6]))
    state, heads = model.state_dict(), 3
    assert len(read) == len(atoms) == 2
    for i, x in enumerate(atoms):
        at = f"network.layers.{i}.operators.0.assoc"
        query, key = (
            (x @ state[f"{at}.{role}.weight"].T + state[f"{at}.{role}.bias"])
            .view(6, heads, -1)
            .transpose(0, 1)
            for role in ("kernel", "premise")
        )
        expected = (query @ key.transpose(1, 2) / math.sqrt(query.shape[2])).softmax(2)
        torch.testing.assert_close(read[i].weights[0].permute(2, 0, 1), expected)


@pytest.mark.parametrize("name", SPECS)
def test_reading_changes_nothing_and_ends(name: str, registry: Registry) -> None:
    model, inputs = _model(SPECS[name], registry), _inputs([7, 4])
    with torch.no_grad():
        before = model(**inputs)
        with attention_of(model) as read:
            within = model(**inputs)
        assert len(read) == 2
        after = model(**inputs)
    assert len(read) == 2
    for output, value in before.items():
        assert torch.equal(value, within[output])
        assert torch.equal(value, after[output])
    assert not any(module.is_read for module in model.modules() if isinstance(module, Attended))
    assert not any("attended" in key for key in model.state_dict())


def test_weights_come_whole_where_rows_come_in_blocks(registry: Registry) -> None:
    model, inputs = _model(FOLNET, registry, **{"model.input.max_length": 512}), _inputs([240])
    with torch.no_grad():
        unread = model(**inputs)
        with attention_of(model) as read:
            outputs = model(**inputs)
    assert [each.weights.shape for each in read] == [(1, 240, 240, 3)] * 2
    for output, value in unread.items():
        torch.testing.assert_close(value, outputs[output])


def test_a_traced_graph_is_the_same_with_and_without(registry: Registry) -> None:
    model, inputs = _model(TRANSFORMER, registry, **{"model.dims.layers": 1}), _inputs([5, 3])
    plain = torch.export.export(model, (), inputs).graph
    with attention_of(model) as read:
        again = torch.export.export(model, (), inputs).graph
    assert str(again) == str(plain)
    assert read == []
    assert "attended" not in str(plain)
    told: list[BetweenTokens] = []
    with between_tokens(model, told.append, traced=True):
        torch.export.export(model, (), inputs)
    assert "weights" in [each.name for each in told]
