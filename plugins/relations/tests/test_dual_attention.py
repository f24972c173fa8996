"""Dual attention and relational cross-attention equal the published code, with its weights.

The package `dual_attention` is run. `abstractor.json` has what `RelationalAttention` and `SymbolRetriever` of
Awni00/abstractor (01234e1) compute in TensorFlow 2.12, without the residual sum and the norm behind them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dual_attention.model_utils as published_utils
import dual_attention.relational_attention as published
import pytest
import torch
from dual_attention.attention_utils import precompute_freqs_cis
from dual_attention.dual_attn_blocks import DualAttnEncoderBlock
from dual_attention.symbol_retrieval import (
    PositionalSymbolRetriever,
    PositionRelativeSymbolRetriever,
    SymbolicAttention,
)
from torch import Tensor

import peirce
from peirce.algebra import Scope
from peirce.kernels import sizes
from peirce.networks import Projections
from peirce.parts import Dims
from peirce_relations.operators.relational_attention import RelationalAttention

WIDTH, HEADS, SIZE, LENGTH, GROUPS = 16, 2, 4, 7, 2
COUNTS = {"retrieved": 5, "distance": 3, "place": LENGTH}
KINDS: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    "asymmetric": ("relational_attention", {}, {}),
    "symmetric": (
        "relational_attention",
        {"symmetric_rels": True, "n_relations": 4},
        {"symmetric": True, "relations": 4},
    ),
    "cross": ("rca", {}, {"cross": True}),
}


def retriever_of(symbols: str) -> Any:
    if symbols == "retrieved":
        return SymbolicAttention(WIDTH, GROUPS, COUNTS[symbols])
    if symbols == "place":
        return PositionalSymbolRetriever(WIDTH, COUNTS[symbols])
    return PositionRelativeSymbolRetriever(WIDTH, COUNTS[symbols])


def symbols_of(retriever: Any, values: Tensor) -> dict[str, Tensor]:
    """The symbols as each head sums them, which published layers map anew, and the map that scores them."""
    if not isinstance(retriever, SymbolicAttention):
        place = isinstance(retriever, PositionalSymbolRetriever)
        table = retriever.symbol_library.weight if place else retriever.rel_pos_enc.rel_pos_embeddings
        return {"symbols": (table @ values.T).view(-1, HEADS, SIZE)}
    size = WIDTH // GROUPS
    library, keys = (
        each.view(-1, GROUPS, size) for each in (retriever.symbol_library, retriever.template_features)
    )
    weight, bias = (each.view(GROUPS, size, -1) for each in retriever.q_proj.parameters())
    scores = [torch.einsum("ngd,gdw->gnw", keys, each).flatten(0, 1) / size**0.5 for each in (weight, bias)]
    return {
        "symbols": torch.einsum("ngd,hsgd->gnhs", library, values.view(HEADS, SIZE, GROUPS, size)),
        "symbol.weight": scores[0],
        "symbol.bias": scores[1].flatten(),
    }


def weights_of(block: DualAttnEncoderBlock, retriever: Any) -> dict[str, Tensor]:
    """A published layer's weights by our names; each kind of heads writes its own half of the atoms."""
    plain, relational = block.dual_attn.self_attention, block.dual_attn.relational_attention
    of_attention = relational if hasattr(relational, "wq") else None
    nothing = torch.zeros(WIDTH // 2, WIDTH // 2)
    told = symbols_of(retriever, relational.wv.weight)
    for role in ("query", "key"):
        scored = getattr(relational, f"w{role[0]}" if of_attention is not None else f"w{role[0]}_attn")
        told[f"{role}.weight"] = scored.weight
        if of_attention is None:
            told[f"relation_{role}.weight"] = getattr(relational, f"w{role[0]}_rel").weight
    if of_attention is None:
        told["relations"] = relational.wr.transpose(1, 2)
    told["output.weight"] = torch.cat([nothing, relational.wo.weight])
    found = {f"operators.1.relational_attention.{name}": value for name, value in told.items()}
    for role in ("query", "key", "value"):
        found[f"operators.0.attention.{role}.weight"] = getattr(plain, f"w{role[0]}").weight
    found["operators.0.attention.output.weight"] = torch.cat([plain.wo.weight, nothing])
    for ours, theirs in (
        ("operators.2.relu.unary.hidden", block.ff_block.linear1),
        ("operators.2.relu.unary.output", block.ff_block.linear2),
        ("norms.0", block.norm1),
        ("norms.1", block.norm2),
    ):
        found |= {f"{ours}.{name}": value for name, value in theirs.named_parameters()}
    return found


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("symbols", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_two_layers_of_the_published_code(
    kind: str, symbols: str, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Release 0.0.7 does not import a module that its relational cross-attention uses.
    monkeypatch.setattr(published, "model_utils", published_utils, raising=False)
    torch.manual_seed(0)
    name, told, options = KINDS[kind]
    told = {**told, "use_relative_positional_symbols": symbols == "distance"}
    retriever = retriever_of(symbols)
    wiring: dict[str, Any] = {"norm_first": False, "ra_type": name, "ra_kwargs": told, "causal": causal}
    blocks = [DualAttnEncoderBlock(WIDTH, HEADS, HEADS, 24, "relu", 0.0, **wiring) for _ in range(2)]
    relational = {"symbols": symbols, "count": COUNTS[symbols], "symbol_heads": GROUPS, **options}
    changes = {
        "model.dims": {"layers": 2, "unary": WIDTH, "heads": HEADS, "head_size": SIZE, "feedforward": 24},
        "model.operators.layer": [{"use": "attention"}, {"use": "relational_attention", **relational}],
        "model.operators.state": "relu",
        "model.options": {"norm": "post", "epsilon": 1e-5, "embedding_norm": False, "pooler": False},
        "model.positions": [{"use": "rope", "pairing": "interleaved"}],
        "model.scope.kind": "causal" if causal else "bidirectional",
        "model.regularisation.dropout": 0.0,
    }
    model = peirce.build(peirce.load_spec("dual-attention", changes), seed=0).eval()
    state = {
        key: torch.zeros_like(each) if key.endswith("bias") else each
        for key, each in model.state_dict().items()
    }
    atoms = torch.randn(3, LENGTH, WIDTH)
    state["network.input.embedding.weight"][: 3 * LENGTH] = atoms.flatten(0, 1)
    for i, block in enumerate(blocks):
        state |= {f"network.layers.{i}.{key}": each for key, each in weights_of(block, retriever).items()}
    model.load_state_dict(state)
    turned = dict(zip(("freqs_cos", "freqs_sin"), precompute_freqs_cis(SIZE, LENGTH), strict=True))
    found = model(input_ids=torch.arange(3 * LENGTH).view(3, LENGTH))["unary"]
    for block in blocks:
        atoms = block(atoms, retriever(atoms), **turned)
    torch.testing.assert_close(found, atoms, atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("symbols", ["place", "retrieved"])
def test_the_numbers_of_the_abstractor(symbols: str) -> None:
    stored = json.loads(Path(__file__).with_name("abstractor.json").read_text())[symbols]
    attention = {name: torch.tensor(each) for name, each in stored["attention"].items()}
    inputs, library = torch.tensor(stored["inputs"]), torch.tensor(stored["symbols"])
    options = RelationalAttention.Options(cross=True, symbols=symbols, count=len(library))
    dims = Dims(layers=1, unary=inputs.shape[2], heads=2, head_size=3)
    operator = RelationalAttention(options, dims)
    maps = Projections(dims, operator.readings(), operator.output(), weights=operator.weights())
    values = torch.einsum("nw,whs->nhs", library, attention["value/kernel"]) + attention["value/bias"]
    output = attention["attention_output/kernel"].flatten(0, 1).T
    state = {"symbols": values, "output.weight": output, "output.bias": attention["attention_output/bias"]}
    for role in ("query", "key"):
        state[f"{role}.weight"] = attention[f"{role}/kernel"].flatten(1).T
        state[f"{role}.bias"] = attention[f"{role}/bias"].flatten()
    if symbols == "retrieved":
        keys, binding = torch.tensor(stored["key"]), torch.tensor(stored["binding"])
        state["symbols"] = values.unsqueeze(0)
        state["symbol.weight"] = binding @ keys.T / binding.shape[1] ** 0.5
        state["symbol.bias"] = torch.zeros(len(binding))
    maps.load_state_dict(state)
    read = [
        (maps.get_submodule(role)(inputs) * reader.scale).unflatten(2, [*reader.shape.values()])
        for role, reader in operator.readings().items()
    ]
    places = torch.arange(inputs.shape[1]).unsqueeze(0)
    inferred = operator.infer(*read, maps.symbols, Scope().at(places, places))
    found = maps.output(inferred.flatten(2))
    torch.testing.assert_close(found, torch.tensor(stored["outputs"]), atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("symbols", COUNTS)
def test_blocks_of_rows_and_tokens_one_by_one_change_nothing(
    symbols: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    relational = {"use": "relational_attention", "symbols": symbols, "count": 3, "symmetric": True}
    spec = peirce.load_spec(
        "relational-folnet",
        {
            "model.architecture": "folnet",
            "model.dims": {"layers": 2, "unary": 8, "binary": 4, "heads": 2, "head_size": 4},
            "model.options": {},
            "model.operators": {"layer": [relational, {"use": "trans"}]},
            "model.input.vocabulary": 20,
            "model.positions": [{"use": "distance"}],
            "model.heads": [{"use": "causal_lm", "as": "lm"}],
            "model.scope.kind": "causal",
        },
    )
    model = peirce.build(spec, seed=0, dtype=torch.float64).eval()
    tokens = torch.randint(20, (2, 7), generator=torch.Generator().manual_seed(0))
    given = {"input_ids": tokens, "attention_mask": torch.arange(7) >= torch.tensor([[0], [3]])}
    whole = model(**given)["lm_logits"]
    monkeypatch.setattr(sizes, "BLOCK_BYTES", 1)
    torch.testing.assert_close(model(**given)["lm_logits"], whole)
    pieces, cache = [], {}
    for at in range(7):
        outputs, cache = model.advance({name: each[:, at : at + 1] for name, each in given.items()}, cache)
        pieces.append(outputs["lm_logits"])
    torch.testing.assert_close(torch.cat(pieces, 1), whole)
