"""The page of families: which become specs, which run as they are, which are refused. Its table is made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from code_blocks import run_page

import peirce
from peirce.errors import PlanError
from peirce.registry import default_catalogue
from peirce.spec import ScopeSpec, Spec
from peirce_basics.architectures.transformer import TransformerOptions
from peirce_hf.checkpoints.importing import import_transformers, layout_of
from peirce_hf.checks import example_model
from peirce_hf.hooks import LAYOUTS

PAGE = Path(__file__).resolve().parents[1] / "docs/families.md"
PLAIN = {
    "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
    "max_position_embeddings": 16, "pad_token_id": 1,
}  # fmt: skip
GPT = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16}
GROUPED = {"num_key_value_heads": 1}
SOURCE = {
    "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 12, "decoder_ffn_dim": 12,
}  # fmt: skip
BOXES: dict[str, dict[str, dict[str, Any]]] = {
    "pretrained": {
        "deberta": {}, "longformer": {"attention_window": 4}, "nomic_bert": {}, "rembert": {},
    },
    "pretrained_decoder": {
        "bloom": {"n_layer": 2, "n_head": 2}, "cohere": GROUPED, "falcon": {}, "gemma": {**GROUPED, "head_dim": 4},
        "gpt_bigcode": GPT, "gpt_oss": {**GROUPED, "num_local_experts": 4, "head_dim": 4},
        "gptj": {**GPT, "rotary_dim": 4}, "granite": GROUPED, "olmo": GROUPED,
        "opt": {"ffn_dim": 12, "word_embed_proj_dim": 8}, "phi": {}, "stablelm": GROUPED, "starcoder2": GROUPED,
    },
    "pretrained_encoder_decoder": {
        "bart": SOURCE, "led": {**SOURCE, "attention_window": 4},
        "t5": {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2},
    },
}  # fmt: skip
"""Settings of a small model of each family that runs as it is, by the architecture that runs it."""
REFUSED = {
    "mamba": ("pretrained_decoder", "does not cache keys and values in each layer"),
    "rwkv": ("pretrained_decoder", "does not cache keys and values in each layer"),
    "xlnet": ("pretrained", "no sequence length limit"),
}
"""The architecture that one would take, and why it does not."""


def row(kind: str, folder: Path) -> str:
    """The line of the page's table about a family with a layout, from the spec of a small model of it."""
    example_model(kind, folder / "theirs")
    spec = import_transformers(folder / "theirs", folder / "ours").spec
    usual = {field.name: field.default for field in attrs.fields(TransformerOptions)}
    known = {"epsilon", "pooler", *(name for name, value in spec.options.items() if value == usual[name])}
    parts = [f"`{name}`" for name in sorted({*spec.options} - known | ({*spec.dims} & {"embedding"}))]
    parts += [f"`{each.use}`" for each in (*spec.positions, *(spec.operators.state or ()), *spec.heads)]  # type: ignore[union-attr]
    return f"| `{kind}` | `{layout_of(kind, folder).example[0]}` | {', '.join(dict.fromkeys(parts))} |"


@pytest.mark.parametrize("kind", sorted(default_catalogue().names(LAYOUTS)))
def test_a_family_that_becomes_a_spec_is_in_the_table(kind: str, tmp_path: Path) -> None:
    assert row(kind, tmp_path) in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("architecture", "kind"), [(each, kind) for each in BOXES for kind in BOXES[each]])
def test_a_family_that_runs_as_it_is_is_in_the_table(architecture: str, kind: str) -> None:
    peirce.build(black_box(architecture, {"model_type": kind, **PLAIN, **BOXES[architecture][kind]}))
    (line,) = (
        each
        for each in PAGE.read_text(encoding="utf-8").splitlines()
        if each.startswith(f"| `{architecture}`")
    )
    assert f"`{kind}`" in line


@pytest.mark.parametrize("kind", REFUSED)
def test_a_family_that_is_refused_is_named(kind: str) -> None:
    architecture, why = REFUSED[kind]
    with pytest.raises(PlanError, match=why):
        peirce.build(black_box(architecture, {"model_type": kind, **PLAIN}))
    assert f"`{kind}`" in PAGE.read_text(encoding="utf-8")


def black_box(architecture: str, config: dict[str, Any]) -> Spec:
    scope = ScopeSpec(kind="causal" if architecture == "pretrained_decoder" else "bidirectional")
    return Spec(name="small", architecture=architecture, dims={}, scope=scope, options={"config": config})


def test_the_layout_on_the_page_agrees(tmp_path: Path) -> None:
    assert run_page(PAGE, tmp_path) >= 2
