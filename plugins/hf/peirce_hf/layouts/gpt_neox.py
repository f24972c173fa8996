"""GPT-NeoX: layer norms before each stage, stages side by side, some channels turned, one tensor for what is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import frozen

from peirce_hf.layouts.layout import PLAIN, QKV, SMALL, Names, at_least, one_of
from peirce_hf.layouts.llama import Llama


@frozen(kw_only=True)
class GPTNeoX(Llama):
    """The settings of `GPTNeoXConfig`; Black et al. (2022)."""

    model_type = "gpt_neox"
    prefix = "gpt_neox."
    tensors: ClassVar[Names] = {
        "embed_in": "input.embedding",
        "layers.{layer}.input_layernorm": "layers.{layer}.norms.0",
        "layers.{layer}.attention.query_key_value": QKV,
        "layers.{layer}.attention.dense": "layers.{layer}.operators.1.join.output",
        "layers.{layer}.post_attention_layernorm": "layers.{layer}.norms.1",
        "layers.{layer}.mlp.dense_h_to_4h": "layers.{layer}.operators.2.*.unary.hidden",
        "layers.{layer}.mlp.dense_4h_to_h": "layers.{layer}.operators.2.*.unary.output",
        "final_layer_norm": "final_norm",
    }
    heads: ClassVar[Names] = {"embed_out": "causal_lm.decoder"}
    by_heads: ClassVar[Mapping[str, str]] = {
        "layers.{layer}.attention.query_key_value": "num_attention_heads"
    }
    aliases: ClassVar[Mapping[str, str]] = {
        "rotary_pct": "partial_rotary_factor",
        "rotary_emb_base": "rope_theta",
    }
    partial = True
    example: ClassVar = ("GPTNeoXForCausalLM", {**SMALL, "rotary_pct": 0.5})

    vocab_size: int = at_least(1, default=50432)
    hidden_size: int = at_least(1, default=6144)
    num_hidden_layers: int = at_least(1, default=44)
    num_attention_heads: int = at_least(1, default=64)
    intermediate_size: int = at_least(1, default=24576)
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    attention_bias: bool = True
    partial_rotary_factor: float = 0.25
    use_parallel_residual: bool = True

    def options(self) -> dict[str, Any]:
        """Layer norms, and stages side by side."""
        return {"norm_kind": "layer", "epsilon": self.layer_norm_eps, "parallel": self.use_parallel_residual}

    def network(self) -> dict[str, Any]:
        """A feed-forward network without a gate."""
        return dict(one_of("hidden_act", self.hidden_act, PLAIN))
