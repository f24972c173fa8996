"""The transformer against torch's own encoder layers, with the same weights."""

from __future__ import annotations

import pytest
import torch
from small_specs import TRANSFORMER
from torch import nn

import peirce
from peirce.errors import PlanError
from peirce.registry import Registry

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


WIRED = {
    "norms on both sides, grouped heads": {
        "dims.kv_heads": 1, "options.norm": "both", "options.norm_kind": "rms", "positions": [{"use": "rope"}],
    },
    "norms on both sides of an operator": {
        "options.norm": "both", "operators.layer": "attention", "operators.state": ["experts"],
    },
    "norms on both sides of a recurrence": {"options.norm": "both", "operators.layer": "lstm"},
    "scaled embeddings, no biases, heads of any size": {
        "dims.head_size": 10, "options.scale_embeddings": True, "options.embedding_norm": True, "options.bias": False,
        "options.norm_bias": False, "positions": [{"use": "t5"}],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", WIRED)
@torch.no_grad()
def test_tokens_that_follow_have_the_atoms_of_one_pass(name: str, registry: Registry) -> None:
    causal = {"model.scope.kind": "causal", "model.heads": [{"use": "causal_lm"}], "model.positions": []}
    changes = {f"model.{key}": value for key, value in WIRED[name].items()}
    spec = TRANSFORMER.replace({**causal, "model.regularisation.init_std": 0.3, **changes})
    model = peirce.build(spec, registry=registry, dtype=torch.float64).eval()
    ids = torch.randint(40, (2, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[True] * 7, [False] * 3 + [True] * 4])
    whole = model(input_ids=ids, attention_mask=mask)["causal_lm_logits"]
    _, cache = model.advance({"input_ids": ids[:, :5], "attention_mask": mask[:, :5]}, {})
    for i in (5, 6):
        outputs, cache = model.advance({"input_ids": ids[:, i : i + 1]}, cache)
        assert torch.allclose(outputs["causal_lm_logits"][:, 0], whole[:, i], atol=1e-12)


def test_a_sandwich_is_its_formula(registry: Registry) -> None:
    """x + n2(f(n1(x))) in each stage, RMS norms, multi-query heads, embeddings times sqrt(d): on plain tensors."""
    changes = {"norm": "both", "norm_kind": "rms", "epsilon": 1e-3, "scale_embeddings": True, "bias": False}
    spec = TRANSFORMER.replace(
        {
            "model.dims.kv_heads": 1, "model.dims.layers": 1, "model.positions": [], "model.operators.state": ["silu"],
            "model.regularisation.init_std": 0.3, **{f"model.options.{key}": value for key, value in changes.items()},
        }
    )  # fmt: skip
    model = peirce.build(spec, registry=registry, dtype=torch.float64).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    w = {key.removeprefix("network."): value for key, value in model.state_dict().items()}
    ids = torch.randint(40, (6,), generator=torch.Generator().manual_seed(0))

    def norm(atoms: torch.Tensor, name: str) -> torch.Tensor:
        return atoms / (atoms.square().mean(-1, keepdim=True) + 1e-3).sqrt() * w[f"{name}.weight"]

    atoms = w["input.embedding.weight"][ids] * WIDTH**0.5 + w["input.token_type.weight"][0]
    at, size = "layers.0.operators", WIDTH // HEADS
    normal = norm(atoms, "layers.0.norms.0")
    query = (normal @ w[f"{at}.0.assoc.kernel.weight"].T).view(6, HEADS, size)
    key, value = (normal @ w[f"{at}.{name}.premise.weight"].T for name in ("0.assoc", "1.join"))
    weights = (torch.einsum("xhs,as->hxa", query, key) / size**0.5).softmax(-1)
    summed = torch.einsum("hxa,as->xhs", weights, value).flatten(1) @ w[f"{at}.1.join.output.weight"].T
    atoms = atoms + norm(summed, "layers.0.after_norms.0")
    own = {
        f"{role}.{leaf}": w[f"{at}.2.silu.unary.{role}.{leaf}"]
        for role in ("hidden", "output")
        for leaf in ("weight", "bias")
    }
    hidden = norm(atoms, "layers.0.norms.1") @ own["hidden.weight"].T + own["hidden.bias"]
    given = hidden * hidden.sigmoid() @ own["output.weight"].T + own["output.bias"]
    atoms = norm(atoms + norm(given, "layers.0.after_norms.1"), "final_norm")
    assert torch.allclose(model(input_ids=ids[None])["unary"][0], atoms, atol=1e-12)


@pytest.mark.parametrize(("sizes", "word"), [({"kv_heads": 2}, "divisor"), ({"heads": 5}, "give head_size")])
def test_sizes_that_do_not_divide(sizes: dict[str, int], word: str, registry: Registry) -> None:
    changes = {f"model.dims.{key}": value for key, value in sizes.items()}
    with pytest.raises(PlanError, match=word):
        peirce.build(TRANSFORMER.replace(changes), registry=registry)
