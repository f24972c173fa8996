"""Recurrent networks: what torch's own recurrences give, wherever the padding stands, and traced as run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_specs import RECURRENT
from torch import nn

from peirce.compose import build, resolve
from peirce.errors import InputError, PlanError, SpecError
from peirce.model import Model
from peirce.registry import Registry, default_registry
from peirce.spec import Spec

SPEC = Spec.from_toml(
    """
format = 1
[model]
name = "small-recurrent"
architecture = "recurrent"
[model.dims]
layers = 2
unary = 6
[model.input]
vocabulary = 30
token_types = 0
max_length = 32
""",
    source="small-recurrent.toml",
)


def network(cell: str, directions: str, registry: Registry | None = None) -> Model:
    spec = SPEC.replace({"model.operators.layer": cell, "model.options.directions": directions})
    return build(spec, registry=registry or default_registry(), dtype=torch.float64).eval()


def stacked(model: Model, cell: str, directions: str) -> nn.RNNBase:
    """torch's own recurrence of as many layers, with the model's parameters."""
    both = directions == "both"
    kind: Any = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
    whole = kind(6, 3 if both else 6, num_layers=2, batch_first=True, bidirectional=both).double()
    state = {}
    for i, layer in enumerate(model.network.layers):
        for own, suffix in (("forwards", ""), ("backwards", "_reverse")):
            if getattr(layer, own) is not None:
                for name, value in getattr(layer, own).state_dict().items():
                    state[name.replace("_l0", f"_l{i}{suffix}")] = value
    whole.load_state_dict(state)
    return whole


@pytest.mark.parametrize("directions", ["both", "forward"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_it_is_torchs_recurrence_over_packed_sequences(
    cell: str, directions: str, registry: Registry
) -> None:
    model = network(cell, directions, registry)
    ids = torch.randint(0, 30, (3, 9))
    lengths = torch.tensor([9, 4, 1])
    mask = torch.arange(9).unsqueeze(0) < lengths.unsqueeze(1)
    embedded = model.network.input.embedding(ids)
    packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True)
    read, _ = stacked(model, cell, directions)(packed)
    wanted, _ = nn.utils.rnn.pad_packed_sequence(read, batch_first=True)
    got = model(input_ids=ids, attention_mask=mask)
    torch.testing.assert_close(got["unary"], wanted)
    assert got["pooled"].shape == (3, 6)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4),
    cell=st.sampled_from(["lstm", "gru"]),
    seed=st.integers(0, 1000),
)
def test_padding_may_stand_anywhere(rows: list[list[bool]], cell: str, seed: int) -> None:
    model = network(cell, "both")
    real = torch.tensor(rows)
    ids = torch.randint(0, 30, real.shape, generator=torch.Generator().manual_seed(seed))
    unary = model(input_ids=ids, attention_mask=real)["unary"]
    assert unary[~real].eq(0).all()
    for row, mask in enumerate(real):
        if mask.any():
            alone = model(input_ids=ids[row : row + 1, mask])["unary"]
            torch.testing.assert_close(unary[row : row + 1, mask], alone)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_old_option_cell_still_names_the_layer(cell: str, registry: Registry) -> None:
    old = SPEC.replace({"model.options.cell": cell})
    new = SPEC.replace({"model.operators.layer": cell})
    model = build(old, registry=registry)
    assert model.spec == new
    assert resolve(new, registry).mixing == model.plan.mixing
    for name, value in build(new, registry=registry).state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name
    assert resolve(old.replace({"model.operators.layer": cell}), registry).spec == new
    with pytest.raises(PlanError, match=r"is the older name of model.operators.layer, which is 'other'"):
        resolve(old.replace({"model.operators.layer": "other"}), registry)


def test_what_cannot_work_is_refused(registry: Registry) -> None:
    with pytest.raises(InputError, match='directions = "both" cannot continue a text'):
        network("lstm", "both", registry).network.advance({"input_ids": torch.tensor([[3]])}, {})
    with pytest.raises(PlanError, match="unary = 7 cannot be shared by two directions"):
        build(SPEC.replace({"model.dims.unary": 7}), registry=registry)
    assert build(
        SPEC.replace({"model.dims.unary": 7, "model.options.directions": "forward"}), registry=registry
    )
    with pytest.raises(PlanError, match=r"unknown operator 'j\.a'"):
        build(SPEC.replace({"model.operators.layer": "j.a"}), registry=registry)
    with pytest.raises(PlanError, match=r"'join' cannot .* 'recurrent' is a recurrent operator: gru, lstm"):
        build(SPEC.replace({"model.operators.layer": [{"use": "join"}]}), registry=registry)
    with pytest.raises(PlanError, match="no other that mixes tokens: keep one of lstm, gru"):
        build(SPEC.replace({"model.operators.layer": [{"use": "lstm"}, {"use": "gru"}]}), registry=registry)
    active = SPEC.replace({"model.operators.layer": [{"use": "lstm", "activation": "modus_ponens"}]})
    with pytest.raises(SpecError, match="unknown option 'activation' of operator 'lstm'"):
        build(active, registry=registry)
    with pytest.raises(PlanError, match='"both" reads from both ends; set directions = "forward"'):
        build(SPEC.replace({"model.scope.kind": "causal"}), registry=registry)
    with pytest.raises(PlanError, match="a recurrence reads all tokens in their order, and no prefix scope"):
        build(RECURRENT.replace({"model.scope.kind": "prefix"}), registry=registry)
    with pytest.raises(PlanError, match="it predicts the next token"):
        build(RECURRENT.replace({"model.scope.kind": "bidirectional"}), registry=registry)
    with pytest.raises(PlanError, match="acts at pair, and architecture 'recurrent'"):
        build(SPEC.replace({"model.positions": [{"use": "shaw"}]}), registry=registry)
