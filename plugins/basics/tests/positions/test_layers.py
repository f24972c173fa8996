"""Positions that act in some layers alone, in whole models, with a cached state and without."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import peirce
from peirce.spec import InputSpec, ScopeSpec, Spec


def model_with(positions: list[Any], layers: int = 2, **changes: Any) -> peirce.Model:
    spec = Spec(
        name="small", architecture="transformer", dims={"layers": layers, "unary": 8, "heads": 2},
        options={"norm": "pre"}, input=InputSpec(vocabulary=20, max_length=16), positions=positions, **changes,
    )  # fmt: skip
    torch.manual_seed(3)
    model = peirce.build(spec).double().eval()
    with torch.no_grad():
        for each in model.parameters():
            each.add_(torch.randn_like(each))
    return model


def reaches(model: peirce.Model) -> list[int]:
    """The tokens whose id changes the atoms of the last of nine tokens."""
    ids = torch.arange(9).unsqueeze(0)
    with torch.no_grad():
        whole = model(input_ids=ids)["unary"][0, -1]
        others = [model(input_ids=ids.index_fill(1, torch.tensor([i]), 15))["unary"][0, -1] for i in range(9)]
    return [i for i, each in enumerate(others) if not torch.equal(each, whole)]


@pytest.mark.parametrize(
    ("layers", "options", "reached"),
    [(1, {}, 3), (2, {}, 5), (2, {"layers": [0]}, 9), (2, {"layers": [1]}, 9), (2, {"layers": [0, 1]}, 5)],
)
def test_a_window_bounds_what_its_layers_read(layers: int, options: dict[str, Any], reached: int) -> None:
    window = {"use": "window", "size": 3, **options}
    found = reaches(model_with([window], layers, scope=ScopeSpec(kind="causal")))
    assert found == list(range(9 - reached, 9))


def test_a_window_counts_real_tokens() -> None:
    model = model_with([{"use": "window", "size": 2}], 1)
    ids, mask = torch.tensor([[5, 6, 7, 8]]), torch.ones(1, 4, dtype=torch.bool)
    with torch.no_grad():
        alone = model(input_ids=ids, attention_mask=mask)["unary"]
        padded = model(
            input_ids=torch.cat([torch.zeros(1, 3, dtype=torch.long), ids], 1),
            attention_mask=torch.cat([~mask[:, :3], mask], 1),
        )["unary"]
    torch.testing.assert_close(padded[:, 3:], alone)


def test_rotations_turn_the_layers_that_they_name() -> None:
    """Without a position, and with one in no layer that matters, the order of tokens says nothing."""
    ids, turned = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[8, 7, 6, 5]])

    def keeps_order(positions: list[Any]) -> bool:
        model = model_with(positions, 2)
        with torch.no_grad():
            one, other = model(input_ids=ids)["unary"], model(input_ids=turned)["unary"].flip(1)
        return not torch.allclose(one, other)

    assert not keeps_order(["none"])
    assert keeps_order([{"use": "rope", "layers": [1]}])
    first, both = (model_with([{"use": "rope", "layers": each}], 2) for each in ([0], [0, 1]))
    with torch.no_grad():
        assert not torch.allclose(first(input_ids=ids)["unary"], both(input_ids=ids)["unary"])


@pytest.mark.parametrize(
    "position", [{"use": "window", "size": 3, "layers": [0]}, {"use": "rope", "layers": [1]}]
)
def test_generation_is_the_same_with_a_cached_state(position: dict[str, Any]) -> None:
    model = model_with([position], 2, scope=ScopeSpec(kind="causal"), heads=["causal_lm"])
    prompts = {"input_ids": torch.tensor([[3, 4, 5, 6, 7]])}
    one, other = (model.generate(prompts, max_new=6, cache=cache)[0].tokens for cache in (True, False))
    assert one == other


@pytest.mark.parametrize("use", ["window", "rope"])
def test_a_layer_that_is_not_there_is_refused(use: str) -> None:
    with pytest.raises(peirce.PlanError, match="no layer 2 among 2"):
        model_with([{"use": use, "layers": [2]}])
