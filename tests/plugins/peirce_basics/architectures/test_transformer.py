"""The transformer against torch's own encoder layers, with the same weights."""

from __future__ import annotations

import peirce
import pytest
import torch
from peirce.registry import Registry
from small_specs import TRANSFORMER
from torch import nn

WIDTH, HEADS, HIDDEN = 24, 3, 96


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("scope", ["bidirectional", "causal"])
def test_layers_are_those_of_torch(norm: str, scope: str, registry: Registry) -> None:
    spec = TRANSFORMER.replace(
        {
            "model.positions": [],
            "model.options.norm": norm,
            "model.scope.kind": scope,
            "model.regularisation.init_std": 0.3,
        }
    )
    model = peirce.build(spec, registry=registry, dtype=torch.float64).eval()
    ids = torch.randint(40, (2, 6), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    state = model.state_dict()
    atoms = state["network.input.embedding.weight"][ids] + state["network.input.token_type.weight"][0]
    if norm == "post":
        atoms = nn.functional.layer_norm(atoms, (WIDTH,), eps=1e-12)
    future = torch.ones(6, 6, dtype=torch.bool).triu(1) if scope == "causal" else None
    for i in range(2):
        layer = _torch_layer(state, i, norm)
        atoms = layer(atoms, src_mask=future, src_key_padding_mask=~mask)
    if norm == "pre":
        atoms = nn.functional.layer_norm(atoms, (WIDTH,), eps=1e-12)
    unary = model(input_ids=ids, attention_mask=mask)["unary"]
    assert torch.allclose(unary[mask], atoms[mask], rtol=1e-9, atol=1e-11)


def _torch_layer(state: dict[str, torch.Tensor], i: int, norm: str) -> nn.Module:
    layer = nn.TransformerEncoderLayer(
        WIDTH,
        HEADS,
        HIDDEN,
        0.0,
        "gelu",
        1e-12,
        batch_first=True,
        norm_first=norm == "pre",
        dtype=torch.float64,
    )
    at = f"network.layers.{i}.operators"
    projections = ("0.assoc.kernel", "0.assoc.premise", "1.join.premise")
    own = {
        "self_attn.in_proj_weight": torch.cat([state[f"{at}.{p}.weight"] for p in projections]),
        "self_attn.in_proj_bias": torch.cat([state[f"{at}.{p}.bias"] for p in projections]),
    }
    for mine, theirs in (
        (f"{at}.1.join.output", "self_attn.out_proj"),
        (f"{at}.2.bool.unary.hidden", "linear1"),
        (f"{at}.2.bool.unary.output", "linear2"),
        (f"network.layers.{i}.norms.0", "norm1"),
        (f"network.layers.{i}.norms.1", "norm2"),
    ):
        own |= {f"{theirs}.{leaf}": state[f"{mine}.{leaf}"] for leaf in ("weight", "bias")}
    layer.load_state_dict(own)
    return layer.train()  # torch's fast path for evaluation has its own rules for padding
