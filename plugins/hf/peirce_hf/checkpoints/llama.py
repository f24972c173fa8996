"""Llama as `transformers` saves it: RMS norms before each stage, rotary positions, grouped heads, gated networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import field, frozen

from peirce.errors import ModelFileError
from peirce_hf.checkpoints.layout import (
    EMBEDDING,
    Decoder,
    Target,
    activations,
    at_least,
    one_of,
    weight_and_bias,
)

ACTIVATIONS = activations("geglu", "reglu", "swiglu")
SCALINGS: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "original_max_position_embeddings": "original_length",
        "low_freq_factor": "low_freq_factor",
        "high_freq_factor": "high_freq_factor",
    },
    "yarn": {
        "factor": "factor",
        "original_max_position_embeddings": "original_length",
        "beta_fast": "beta_fast",
        "beta_slow": "beta_slow",
        "attention_factor": "attention_factor",
        "truncate": "truncate",
    },
}
"""The parameters of each scaling of rotary positions, and the options of `rope`."""


@frozen(kw_only=True)
class Llama(Decoder):
    """The settings of `LlamaConfig`; Touvron et al. (2023)."""

    model_type: ClassVar[str] = "llama"
    prefix: ClassVar[str] = "model."
    anchor: ClassVar[str] = "layers.0.input_layernorm.weight"
    words: ClassVar[str] = "embed_tokens"

    vocab_size: int = at_least(1, default=32000)
    hidden_size: int = at_least(1, default=4096)
    intermediate_size: int = at_least(1, default=11008)
    num_hidden_layers: int = at_least(1, default=32)
    num_attention_heads: int = at_least(1, default=32)
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    max_position_embeddings: int = at_least(1, default=2048)
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    attention_dropout: float = 0.0
    mlp_bias: bool = False
    rope_theta: float = 10_000.0
    rope_scaling: Mapping[str, Any] = field(factory=dict)
    rope_parameters: Mapping[str, Any] = field(factory=dict)
    partial_rotary_factor: float = 1.0
    original_max_position_embeddings: int | None = None

    def spec(self) -> dict[str, Any]:
        """A causal transformer with RMS norms before."""
        gated: dict[str, Any] = {**one_of("hidden_act", self.hidden_act, ACTIVATIONS), "bias": self.mlp_bias}
        return {
            **self.shared(norm_kind="rms", epsilon=self.rms_norm_eps, bias=self.attention_bias),
            "dims": {
                "layers": self.num_hidden_layers,
                "unary": self.hidden_size,
                "heads": self.num_attention_heads,
                "kv_heads": self.num_key_value_heads or self.num_attention_heads,
                "head_size": self.head_dim or self.hidden_size // self.num_attention_heads,
                "feedforward": self.intermediate_size,
            },
            "input": self.input(token_types=0, max_length=self.max_position_embeddings),
            "operators": {"state": [gated]},
            "positions": [self._rope()],
            "regularisation": {"dropout": self.attention_dropout, "init_std": self.initializer_range},
        }

    def _rope(self) -> dict[str, Any]:
        """The table of the position `rope`.

        Raises:
            ModelFileError: the scaling, or a parameter of it, is one that `rope` does not have.
        """
        settings = self.rope_scaling or self.rope_parameters
        given = {key: value for key, value in settings.items() if value is not None}
        kinds = [given.pop(key) for key in ("rope_type", "type") if key in given]
        kind = str(kinds[0]) if kinds else "default"
        known = one_of("rope_type", kind, SCALINGS)
        table = {"use": "rope", "base": float(given.pop("rope_theta", self.rope_theta))}
        fraction = given.pop("partial_rotary_factor", self.partial_rotary_factor)
        if kind == "default":
            return table  # whatever the fraction: LlamaForCausalLM turns whole heads
        if fraction != 1 or not {"mscale", "mscale_all_dim"}.isdisjoint(given):
            raise ModelFileError(
                f"the {kind} scaling of rope has no partial_rotary_factor, mscale or mscale_all_dim here; the "
                "architecture 'pretrained_decoder' runs the model by transformers itself"
            )
        longest = given.get("original_max_position_embeddings", self.max_position_embeddings)
        given["original_max_position_embeddings"] = self.original_max_position_embeddings or longest
        # yarn has published defaults of the others; `rope` has defaults that no configuration means.
        needed = ("factor",) if kind == "yarn" else known
        if absent := [key for key in needed if key not in given]:
            raise ModelFileError(
                f"the {kind} scaling of rope lacks {', '.join(absent)}; copy the configuration again"
            )
        return {
            **table,
            "scaling": kind,
            **{known[key]: value for key, value in given.items() if key in known},
        }

    def names(self) -> dict[str, Target]:
        """The body's tensors and the head's."""
        body, act = self.body, ACTIVATIONS[self.hidden_act]["use"]
        table = {
            f"{body}embed_tokens.weight": Target((EMBEDDING,)),
            **weight_and_bias(f"{body}norm", "network.final_norm", bias=False),
        }
        for i in range(self.num_hidden_layers):
            theirs, layer = f"{body}layers.{i}", f"network.layers.{i}"
            ours = f"{layer}.operators"
            for projection, place in (
                ("q_proj", "0.assoc.kernel"), ("k_proj", "0.assoc.premise"), ("v_proj", "1.join.premise"),
                ("o_proj", "1.join.output"),
            ):  # fmt: skip
                table |= weight_and_bias(
                    f"{theirs}.self_attn.{projection}", f"{ours}.{place}", bias=self.attention_bias
                )
            for projection, place in (("gate_proj", "gate"), ("up_proj", "hidden"), ("down_proj", "output")):
                name = f"{ours}.2.{act}.unary.{place}"
                table |= weight_and_bias(f"{theirs}.mlp.{projection}", name, bias=self.mlp_bias)
            table |= weight_and_bias(f"{theirs}.input_layernorm", f"{layer}.norms.0", bias=False)
            table |= weight_and_bias(f"{theirs}.post_attention_layernorm", f"{layer}.norms.1", bias=False)
        return table | self.head()
