"""Attention in one operator is the transformer's, with every position, and its groups share keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from small_specs import FOLNET, TRANSFORMER
from torch import Tensor

from peirce.algebra import Predicates, Scope, attention_of
from peirce.compose import build, resolve
from peirce.errors import SpecError
from peirce.model import Model
from peirce.networks import Norms
from peirce.registry import Registry

POSITIONS: tuple[list[dict[str, Any]], ...] = (
    [], [{"use": "t5", "num_buckets": 8}], [{"use": "shaw", "clip": 2}], [{"use": "disentangled", "clip": 3}],
    [{"use": "rope"}], [{"use": "alibi"}], [{"use": "transformer_xl"}], [{"use": "fire"}], [{"use": "cope"}],
)  # fmt: skip
NAMES = {
    "query": "0.assoc.kernel",
    "key": "0.assoc.premise",
    "value": "1.join.premise",
    "output": "1.join.output",
}
"""The projections of attention, and those of the two operators that make it up."""


def network(positions: Sequence[Any], registry: Registry, **options: Any) -> Model:
    """A network of both branches, whose one operator is attention."""
    changes: dict[str, Any] = {
        "model.operators": {"layer": [{"use": "attention", **options}]},
        "model.dims": {"layers": 1, "unary": 24, "binary": 2, "heads": 4, "head_size": 6},
        "model.positions": positions, "model.heads": [], "model.regularisation.init_std": 0.5,
        "model.scope.kind": "causal",
    }  # fmt: skip
    return build(FOLNET.replace(changes), registry=registry, dtype=torch.float64, seed=3).eval()


@pytest.mark.parametrize("kind", ["padded", "causal", "relation", "whole"])
@pytest.mark.parametrize("positions", POSITIONS, ids=lambda p: p[0]["use"] if p else "none")
def test_it_is_the_attention_of_a_transformer(positions: list[Any], kind: str, registry: Registry) -> None:
    changes = {
        "model.dims": {"layers": 1, "unary": 24, "heads": 4},
        "model.positions": positions,
        "model.heads": [],
        "model.scope.kind": "causal",
    }
    theirs: Any = build(TRANSFORMER.replace(changes), registry=registry, dtype=torch.float64, seed=2).eval()
    ours: Any = network(positions, registry)
    mixing, attention = ours.network.layers[0].mixing, theirs.network.layers[0].attention
    kept = theirs.network.layers[0].operators.state_dict()
    for name, own in NAMES.items():
        for leaf in ("weight", "bias"):
            part = ours.network.layers[0].operators[0].attention.get_submodule(name)
            part.get_parameter(leaf).data = kept[f"{own}.{leaf}"]
    ours.network.input.positions.load_state_dict(theirs.network.input.positions.state_dict())
    real = torch.tensor([[False, False, *[True] * 5], [True] * 5 + [False, True]])
    scope = {
        "padded": Scope.padding(real), "causal": Scope.past(7) & Scope.padding(real), "whole": Scope.padding(None),
        "relation": Scope.relation(torch.rand(2, 7, 7) > 0.5),
    }[kind]  # fmt: skip
    tokens = theirs.network.input.tokens({"input_ids": torch.ones(2, 7, dtype=torch.int64)})
    (terms,) = theirs.network.input.pairs(tokens)
    norms = Norms(ours.plan.dims).double()
    atoms = torch.randn(2, 7, 24, dtype=torch.float64)
    given = Predicates(atoms, torch.zeros(2, 7, 7, 2, dtype=torch.float64))
    with torch.no_grad(), attention_of(theirs) as read, attention_of(ours) as own_read:
        wanted, _ = attention(scope.zero_unary(norms.unary(atoms)), scope, terms, {})
        found, cache = mixing(given, norms, scope, terms, {})
    torch.testing.assert_close(found.unary - atoms, wanted, rtol=0, atol=1e-13)
    assert torch.equal(found.binary, given.binary)
    torch.testing.assert_close(own_read[0].weights, read[0].weights, rtol=0, atol=1e-14)
    assert {name: value.shape for name, value in cache.items()} == dict.fromkeys(
        ("0_attention_key", "0_attention_value"), (2, 7, 4, 6)
    )


@pytest.mark.parametrize("positions", POSITIONS, ids=lambda p: p[0]["use"] if p else "none")
@pytest.mark.parametrize("groups", [1, 2])
def test_a_group_of_queries_shares_keys_and_values(
    groups: int, positions: list[Any], registry: Registry
) -> None:
    few, many = network(positions, registry, kv_heads=groups), network(positions, registry)
    state = few.state_dict()
    for name, value in state.items():
        if ".key." in name or ".value." in name:  # the head h reads the group h // (4 / groups)
            rows = value.unflatten(0, (groups, 6)).repeat_interleave(4 // groups, 0)
            state[name] = rows.flatten(0, 1)
    many.load_state_dict(state)
    ids = torch.randint(0, 40, (2, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[True] * 9, [True] * 4 + [False] * 2 + [True] * 3])
    with torch.no_grad():
        one, other = (model(input_ids=ids, attention_mask=mask) for model in (few, many))
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=0, atol=1e-12)


def test_it_works_where_there_are_no_relations(registry: Registry) -> None:
    model: Any = network([], registry, bias=False)
    atoms = torch.randn(1, 5, 24, dtype=torch.float64)
    mixing, norms = model.network.layers[0].mixing, Norms(model.plan.dims).double()
    with torch.no_grad():
        alone, _ = mixing(Predicates(atoms), norms, Scope())
        beside, _ = mixing(Predicates(atoms, torch.randn(1, 5, 5, 2, dtype=torch.float64)), norms, Scope())
    assert alone.binary is None
    assert torch.equal(alone.unary, beside.unary)
    assert not any("attention" in name and "bias" in name for name in model.state_dict())


def test_its_gradients_are_those_of_differences(registry: Registry) -> None:
    (planned,) = resolve(network([], registry, kv_heads=2).spec, registry).mixing
    assert planned.operator is not None
    scope = Scope.past(4) & Scope.padding(torch.tensor([[True, False, True, True]]))

    def infer(*channels: Tensor) -> Tensor:
        return planned.deduce(channels, scope)

    shapes = [(1, 4, 4, 6), (1, 4, 2, 6), (1, 4, 2, 6)]
    channels = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(infer, channels)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kv_heads": 3}, "kv_heads = 3 does not divide the 4 heads; choose a divisor, or 0"),
        ({"kv_heads": 8}, "kv_heads = 8 does not divide the 4 heads"),
        ({"kv_heads": -1}, "kv_heads"),
        ({"kv_head": 2}, "kv_heads"),
    ],
)
def test_groups_that_are_not_even_are_refused(options: dict[str, int], said: str, registry: Registry) -> None:
    with pytest.raises(SpecError, match=said):
        network([], registry, **options)


def test_a_transformer_of_it_is_the_transformer_of_two_operators(registry: Registry) -> None:
    changes: dict[str, Any] = {
        "model.positions": [{"use": "rope"}], "model.scope.kind": "causal", "model.regularisation.init_std": 0.4,
        "model.heads": [{"use": "causal_lm", "as": "lm"}],
    }  # fmt: skip
    two = TRANSFORMER.replace(changes)
    one = two.replace({"model.operators": {"layer": [{"use": "attention"}]}})
    theirs, ours = (build(spec, registry=registry, dtype=torch.float64).eval() for spec in (two, one))
    renamed = {f"operators.0.attention.{own}.": f"operators.{name}." for own, name in NAMES.items()}
    renamed["operators.1.bool."] = "operators.2.bool."
    state, kept = ours.state_dict(), theirs.state_dict()
    for name in state:
        old = next((name.replace(mine, other) for mine, other in renamed.items() if mine in name), name)
        state[name] = kept[old]
    ours.load_state_dict(state)
    ids = torch.randint(0, 40, (2, 8), generator=torch.Generator().manual_seed(0))
    inputs = {"input_ids": ids, "attention_mask": torch.tensor([[True] * 8, [False] * 3 + [True] * 5])}
    with torch.no_grad():
        for name, value in theirs(**inputs).items():
            torch.testing.assert_close(ours(**inputs)[name], value, rtol=0, atol=1e-12)
    wanted = [text.tokens for text in theirs.generate(inputs, max_new=4)]
    assert [text.tokens for text in ours.generate(inputs, max_new=4)] == wanted
