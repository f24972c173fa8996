"""rope against the published codes that transformers has: frequencies, scalings and pairings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from first_scores import IDS, MASK, random_model, with_position
from small_specs import ENCODER_DECODER
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as turn_part
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as turn_interleaved
from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as turn_halves

import peirce
from peirce.parts import Dims, PlainScope, Tokens
from peirce.registry import Registry
from peirce_basics.positions.rope import Rope

LENGTH, FAR = 50, 80
"""Tokens, and how far each stands from the next."""
LAST = (LENGTH - 1) * FAR + 1
"""How many tokens the text has, by the place of the last one."""
DIMS = Dims(layers=2, unary=128, heads=2, head_size=64, vocabulary=9)
LONG = {"original_max_position_embeddings": 4096}
FACTORS: list[list[float]] = [[1 + step * pair for pair in range(32)] for step in (0.01, 0.3)]
BY_PAIR = {"short_factor": FACTORS[0], "long_factor": FACTORS[1]}
OURS = {"short_factors": (*FACTORS[0],), "long_factors": (*FACTORS[1],)}
LONGEST = "max_position_embeddings"
SCALED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "linear": ("linear", {"factor": 4.0}, {"factor": 4.0}),
    "llama3": (
        "llama3",
        {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **LONG},
        {"factor": 8.0, "original_length": 4096},
    ),
    "yarn": ("yarn", {"factor": 16.0, **LONG}, {"factor": 16.0, "original_length": 4096}),
    "yarn, untruncated": (
        "yarn",
        {"factor": 16.0, "truncate": False, "beta_fast": 24.0, "beta_slow": 2.0, **LONG},
        {"factor": 16.0, "original_length": 4096, "truncate": False, "beta_fast": 24.0, "beta_slow": 2.0},
    ),
    "yarn, a factor of its own": (
        "yarn",
        {"factor": 4.0, "attention_factor": 0.7, **LONG},
        {"factor": 4.0, "original_length": 4096, "attention_factor": 0.7},
    ),
    "dynamic": ("dynamic", {"factor": 4.0, LONGEST: 1000}, {"factor": 4.0, "original_length": 1000}),
    "dynamic, in a short text": (
        "dynamic",
        {"factor": 4.0, LONGEST: LAST},
        {"factor": 4.0, "original_length": LAST},
    ),
    "longrope": (
        "longrope",
        {**BY_PAIR, LONGEST: 4000, "original_max_position_embeddings": 1000},
        {**OURS, "factor": 4.0, "original_length": 1000},
    ),
    "longrope, in a short text": (
        "longrope",
        {**BY_PAIR, "factor": 8.0, "attention_factor": 1.3, "original_max_position_embeddings": LAST},
        {**OURS, "attention_factor": 1.3, "original_length": LAST},
    ),
    "proportional": ("proportional", {"partial_rotary_factor": 0.25}, {"fraction": 0.25, "factor": 1.0}),
    "proportional, divided": (
        "proportional",
        {"partial_rotary_factor": 0.3, "factor": 2.0},
        {"fraction": 0.3, "factor": 2.0},
    ),
}


def rope(**options: Any) -> Rope:
    return Rope(Rope.Options(**options), DIMS)


def tokens(length: int = LENGTH) -> Tokens:
    return Tokens({}, None, torch.arange(length).unsqueeze(0) * FAR, length)


def drawn() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 3, LENGTH, 2, 64, generator=generator)
    return query, key


@pytest.mark.parametrize("case", list(SCALED))
@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_scaled_frequencies_are_the_published_ones(case: str, base: float) -> None:
    scaling, theirs, ours = SCALED[case]
    config = LlamaConfig(
        hidden_size=128,
        num_attention_heads=2,
        max_position_embeddings=theirs.get(LONGEST, 4096 * 16),
        rope_parameters={"rope_type": scaling, "rope_theta": base, **theirs},
    )
    wanted, amount = ROPE_INIT_FUNCTIONS[scaling](config, seq_len=torch.tensor(LAST))
    position = rope(base=base, scaling=scaling, **ours)
    torch.testing.assert_close(position.rates(torch.zeros(()), tokens().index), wanted, rtol=1e-7, atol=0)
    assert position.amount == pytest.approx(amount, rel=1e-12)
    cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1), tokens().index)
    query, key = drawn()
    pair = turn_halves(query.transpose(1, 2), key.transpose(1, 2), cos, sin)
    [turn, _] = position.rotations(tokens())
    for channels, expected in zip((query, key), pair, strict=True):
        torch.testing.assert_close(turn.turn(channels), expected.transpose(1, 2), rtol=0, atol=1e-6)


@pytest.mark.parametrize("original", [LENGTH, LENGTH - 1])
@pytest.mark.parametrize("options", [{"scaling": "longrope", **OURS}, {"scaling": "dynamic", "factor": 4.0}])
def test_the_reference_knows_how_long_a_text_is(options: dict[str, Any], original: int) -> None:
    position = rope(original_length=original, **options)
    query, key = (each[:1].double() for each in drawn())
    given = {"query": query[0].tolist(), "key": key[0].tolist()}
    wanted = position.reference(given, PlainScope([], [], [*range(LENGTH)]), {}, DIMS)["query"]
    [turn, _] = position.double().rotations(Tokens({}, None, torch.arange(LENGTH).unsqueeze(0), LENGTH))
    torch.testing.assert_close(turn.turn(query)[0], torch.tensor(wanted, dtype=torch.float64))


def test_interleaved_pairs_are_those_of_gptj() -> None:
    sin, cos = create_sinusoidal_positions(LENGTH * FAR, 64)[None, ::FAR].chunk(2, 2)
    query, _ = drawn()
    [turn, _] = rope(pairing="interleaved").rotations(tokens())
    torch.testing.assert_close(turn.turn(query), turn_interleaved(query, sin, cos), rtol=0, atol=1e-6)


def test_a_fraction_of_a_head_is_turned_as_in_gpt_neox() -> None:
    config = GPTNeoXConfig(hidden_size=128, num_attention_heads=2, rotary_pct=0.25)
    cos, sin = GPTNeoXRotaryEmbedding(config)(torch.zeros(1), tokens().index)
    query, key = (each.transpose(1, 2) for each in drawn())
    [turn, _] = rope(fraction=0.25).rotations(tokens())
    wanted, _ = turn_part(query, key, cos, sin)
    torch.testing.assert_close(turn.turn(query.transpose(1, 2)), wanted.transpose(1, 2), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_far_positions_are_turned_in_single_precision(dtype: torch.dtype) -> None:
    """Counted in bfloat16, 1001 tokens would be 1000, which stand a radian apart."""
    [turn, _] = rope().to(dtype).rotations(tokens(25))
    [wanted, _] = rope().double().rotations(tokens(25))
    torch.testing.assert_close(turn.cos.double(), wanted.cos, rtol=0, atol=5e-4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fraction": 0.02}, "turns 1 of a head's 64 channels"),
        ({"fraction": 0.05}, "turns 3 of a head's 64 channels"),
        ({"scaling": "llama3", "low_freq_factor": 4.0}, "low_freq_factor must be less than high_freq_factor"),
        ({"scaling": "yarn", "beta_fast": 1.0}, "beta_slow must be less than beta_fast"),
        ({"scaling": "dynamic", "fraction": 0.04}, "'dynamic' needs two pairs or more"),
        (
            {"scaling": "longrope", "short_factors": (1.0,) * 32},
            "long_factors has 0 numbers, and a head has 32 pairs",
        ),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], said: str) -> None:
    assert said in (Rope.check(Rope.Options(**options), DIMS, "causal") or "")
    assert Rope.check(Rope.Options(), DIMS, "causal") is None


def test_only_differences_of_positions_matter(registry: Registry) -> None:
    """Padding on the left moves every token, and changes no atom."""
    model = random_model(with_position("transformer", {"use": "rope"}), registry)
    plain = model(input_ids=IDS)["unary"]
    padded = torch.cat([torch.zeros(3, 4, dtype=torch.int64), IDS], 1)
    mask = torch.arange(11).expand(3, -1) >= 4
    moved = model(input_ids=padded, attention_mask=mask)["unary"]
    torch.testing.assert_close(moved[:, 4:], plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layers", [1, 3])
def test_a_source_is_turned_by_its_own_count(layers: int, registry: Registry) -> None:
    """Padding of source and target changes nothing, wherever it stands; nor does generation token by token."""
    spec = ENCODER_DECODER.replace(
        {
            "model.positions": [{"use": "distance", "clip": 4}, {"use": "rope"}],
            "model.heads": [],
            "model.options": {"decoder_layers": layers},
        }
    )
    model = random_model(spec, registry)
    network: Any = model.network
    target = IDS.flip(1)[:, :5]
    for i in range(3):
        own = {"input_ids": IDS[i : i + 1, MASK[i]], "decoder_input_ids": target[i : i + 1]}
        alone = model(**own)["unary"]
        inputs = {"input_ids": IDS, "attention_mask": MASK, "decoder_input_ids": target}
        whole = model(**inputs)["unary"]
        torch.testing.assert_close(whole[i : i + 1], alone, rtol=1e-9, atol=1e-9)
    with torch.no_grad():
        pieces, cache = [], {}
        for at in range(5):
            new = {"decoder_input_ids": target[:, at : at + 1]}
            encoded, _, cache = network.advance({**inputs, **new} if at == 0 else new, cache)
            pieces.append(encoded.unary)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-9, atol=1e-9)
    without = spec.replace({"model.positions": [{"use": "distance", "clip": 4}]})
    assert not torch.allclose(random_model(without, registry)(**inputs)["unary"], whole)


@pytest.mark.thorough
def test_a_turned_decoder_is_exported(registry: Registry, tmp_path: Path) -> None:
    """The exporter verifies what it wrote, at other lengths of source and target than it was traced at."""
    spec = ENCODER_DECODER.replace({"model.positions": [{"use": "distance", "clip": 4}, {"use": "rope"}]})
    peirce.export(random_model(spec, registry).float(), path=tmp_path / "model.onnx", registry=registry)
    assert (tmp_path / "model.onnx").is_file()
