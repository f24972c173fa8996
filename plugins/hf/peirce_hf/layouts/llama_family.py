"""Decoders that differ from Llama in little: Mistral, Mixtral, OLMo 2, Phi-3, Qwen 2 and 3, SmolLM 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from attrs import frozen

from peirce_hf.layouts.layout import QKV, Names, at_least
from peirce_hf.layouts.llama import SLIDING, Llama, layers_of

_MOE = "layers.{layer}.block_sparse_moe"
_EXPERTS = "layers.{layer}.operators.2.experts"


@frozen(kw_only=True)
class Mistral(Llama):
    """The settings of `MistralConfig`; Jiang et al. (2023)."""

    model_type = "mistral"
    example: ClassVar = ("MistralForCausalLM", {**Llama.example[1], "sliding_window": 4})

    intermediate_size: int = at_least(1, default=14336)
    num_key_value_heads: int | None = 8
    max_position_embeddings: int = at_least(1, default=131_072)
    sliding_window: int | None = 4096

    def positions(self) -> list[dict[str, Any]]:
        """Llama's, and the window."""
        return [self.rope(), *self.window(self.sliding_window)]


@frozen(kw_only=True)
class Mixtral(Mistral):
    """The settings of `MixtralConfig`; Jiang et al. (2024)."""

    model_type = "mixtral"
    tensors: ClassVar[Names] = {
        **Llama.tensors,
        f"{_MOE}.gate": f"{_EXPERTS}.router",
        f"{_MOE}.experts.{{expert}}.w1": f"{_EXPERTS}.experts.{{expert}}.gate",
        f"{_MOE}.experts.{{expert}}.w2": f"{_EXPERTS}.experts.{{expert}}.output",
        f"{_MOE}.experts.{{expert}}.w3": f"{_EXPERTS}.experts.{{expert}}.hidden",
    }
    example: ClassVar = ("MixtralForCausalLM", {**Llama.example[1], "num_local_experts": 4})

    rms_norm_eps: float = 1e-5
    sliding_window: int | None = None
    num_experts_per_tok: int = at_least(2, default=2)
    num_local_experts: int = at_least(2, default=8)
    router_aux_loss_coef: float = 0.001

    def network(self) -> dict[str, Any]:
        """Experts that are gated networks."""
        gated = super().network()
        return {
            "use": "experts",
            "experts": self.num_local_experts,
            "top_k": self.num_experts_per_tok,
            "network": gated["use"],
            "tanh": gated.get("tanh", False),
            "bias": gated["bias"],
            "balance": self.router_aux_loss_coef,
        }


@frozen(kw_only=True)
class Olmo2(Llama):
    """The settings of `Olmo2Config`; OLMo Team (2025)."""

    model_type = "olmo2"
    tensors: ClassVar[Names] = {
        **Llama.tensors,
        "layers.{layer}.post_attention_layernorm": "layers.{layer}.after_norms.0",
        "layers.{layer}.post_feedforward_layernorm": "layers.{layer}.after_norms.1",
    }
    example: ClassVar = ("Olmo2ForCausalLM", Llama.example[1])

    vocab_size: int = at_least(1, default=50304)
    rms_norm_eps: float = 1e-5

    def options(self) -> dict[str, Any]:
        """Norms after each stage, and of queries and keys."""
        return {"norm": "after", "query_norm": "all"}


@frozen(kw_only=True)
class Phi3(Llama):
    """The settings of `Phi3Config`; Abdin et al. (2024)."""

    model_type = "phi3"
    tensors: ClassVar[Names] = {
        **Llama.tensors,
        "layers.{layer}.self_attn.qkv_proj": QKV,
        "layers.{layer}.mlp.gate_up_proj": (
            "layers.{layer}.operators.2.*.unary.gate",
            "layers.{layer}.operators.2.*.unary.hidden",
        ),
    }
    partial = True
    scalings: ClassVar[Mapping[str, str]] = {
        "su": "longrope",
        "yarn": "longrope",
    }  # as its first versions say
    example: ClassVar = (
        "Phi3ForCausalLM",
        {**Llama.example[1], "pad_token_id": 0, "partial_rotary_factor": 0.5},
    )

    vocab_size: int = at_least(1, default=32064)
    hidden_size: int = at_least(1, default=3072)
    intermediate_size: int = at_least(1, default=8192)
    max_position_embeddings: int = at_least(1, default=4096)
    original_max_position_embeddings: int | None = 4096
    rms_norm_eps: float = 1e-5
    sliding_window: int | None = None

    def positions(self) -> list[dict[str, Any]]:
        """Llama's, and a window."""
        return [self.rope(), *self.window(self.sliding_window)]


@frozen(kw_only=True)
class Qwen2(Llama):
    """The settings of `Qwen2Config`; Yang et al. (2024)."""

    model_type = "qwen2"
    example: ClassVar = (
        "Qwen2ForCausalLM",
        {**Llama.example[1], "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    )

    vocab_size: int = at_least(1, default=151_936)
    intermediate_size: int = at_least(1, default=22016)
    num_key_value_heads: int | None = 32
    max_position_embeddings: int = at_least(1, default=32768)
    use_sliding_window: bool = False
    sliding_window: int | None = 4096
    max_window_layers: int = 28
    layer_types: tuple[str, ...] | None = None

    def options(self) -> dict[str, Any]:
        """Biases of what attention reads."""
        return {"bias": True, "output_bias": False}

    def positions(self) -> list[dict[str, Any]]:
        """Llama's, and a window in the later layers."""
        size, count = self.sliding_window if self.use_sliding_window else None, self.num_hidden_layers
        if self.layer_types is None:
            return [self.rope(), *self.window(size, range(self.max_window_layers, count))]
        return [self.rope(), *self.window(size, layers_of(SLIDING, self.layer_types, count))]


@frozen(kw_only=True)
class Qwen3(Qwen2):
    """The settings of `Qwen3Config`; Yang et al. (2025)."""

    model_type = "qwen3"
    example: ClassVar = ("Qwen3ForCausalLM", {**Qwen2.example[1], "head_dim": 8})

    head_dim: int | None = 128
    mlp_bias: Literal[False] = False

    def options(self) -> dict[str, Any]:
        """Norms of each head's queries and keys."""
        return {"query_norm": "head"}


@frozen(kw_only=True)
class SmolLM3(Llama):
    """The settings of `SmolLM3Config`; Hugging Face (2025)."""

    model_type = "smollm3"
    example: ClassVar = ("SmolLM3ForCausalLM", {**Llama.example[1], "no_rope_layer_interval": 2})

    vocab_size: int = at_least(1, default=128_256)
    hidden_size: int = at_least(1, default=2048)
    num_hidden_layers: int = at_least(1, default=36)
    num_attention_heads: int = at_least(1, default=16)
    num_key_value_heads: int | None = 4
    max_position_embeddings: int = at_least(1, default=32768)
    tie_word_embeddings: bool = True
    rope_theta: float = 2_000_000.0
    use_sliding_window: Literal[False] = False
    layer_types: tuple[str, ...] | None = None
    no_rope_layers: tuple[int, ...] | None = None
    no_rope_layer_interval: int = at_least(1, default=4)

    def positions(self) -> list[dict[str, Any]]:
        """A rotation in some layers: those with 1 in `no_rope_layers`."""
        count, interval = self.num_hidden_layers, self.no_rope_layer_interval
        turned = self.no_rope_layers or [int((layer + 1) % interval != 0) for layer in range(count)]
        layers = [layer for layer, turns in enumerate(turned[:count]) if turns]
        return [{**self.rope(), "layers": layers}] if layers else []
