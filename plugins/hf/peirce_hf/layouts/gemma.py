"""Gemma 2 and 3: norms around each stage, whose weights are added to one, windows that alternate, capped scores."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from attrs import frozen

from peirce_hf.layouts.layout import Names, at_least
from peirce_hf.layouts.llama import FULL, SLIDING, Llama, layers_of


@frozen(kw_only=True)
class Gemma2(Llama):
    """The settings of `Gemma2Config`; Gemma Team (2024)."""

    model_type = "gemma2"
    tensors: ClassVar[Names] = {
        **Llama.tensors,
        "layers.{layer}.post_attention_layernorm": "layers.{layer}.after_norms.0",
        "layers.{layer}.pre_feedforward_layernorm": "layers.{layer}.norms.1",
        "layers.{layer}.post_feedforward_layernorm": "layers.{layer}.after_norms.1",
    }
    activation = "hidden_activation"
    example: ClassVar = (
        "Gemma2ForCausalLM",
        {**Llama.example[1], "head_dim": 8, "query_pre_attn_scalar": 12, "sliding_window": 4},
    )

    vocab_size: int = at_least(1, default=256_000)
    hidden_size: int = at_least(1, default=2304)
    intermediate_size: int = at_least(1, default=9216)
    num_hidden_layers: int = at_least(1, default=26)
    num_attention_heads: int = at_least(1, default=8)
    num_key_value_heads: int | None = 4
    head_dim: int | None = 256
    hidden_activation: str = "gelu_pytorch_tanh"
    max_position_embeddings: int = at_least(1, default=8192)
    tie_word_embeddings: bool = True
    query_pre_attn_scalar: int = at_least(1, default=256)
    sliding_window: int | None = 4096
    layer_types: tuple[str, ...] | None = None
    final_logit_softcapping: float | None = 30.0
    attn_logit_softcapping: float | None = 50.0
    use_bidirectional_attention: Literal[False] | None = None

    def options(self) -> dict[str, Any]:
        """Norms around each stage, scaled words, and what becomes of scores."""
        return {
            "norm": "both",
            "norm_offset": True,
            "scale_embeddings": True,
            "score_scale": self.query_pre_attn_scalar**-0.5,
            "score_cap": self.attn_logit_softcapping or 0.0,
        }

    def shared(self, **options: Any) -> dict[str, Any]:
        """What decoders share; the head's scores are capped."""
        table = super().shared(**options)
        for head in table["heads"]:
            head["cap"] = self.final_logit_softcapping or 0.0
        return table

    def sliding(self) -> list[int]:
        """The layers with a window."""
        types = self.layer_types or [SLIDING, FULL] * self.num_hidden_layers
        return layers_of(SLIDING, types, self.num_hidden_layers)

    def positions(self) -> list[dict[str, Any]]:
        """Llama's, and a window in some layers."""
        return [self.rope(), *self.window(self.sliding_window, self.sliding())]


@frozen(kw_only=True)
class Gemma3(Gemma2):
    """The settings of `Gemma3TextConfig`; Gemma Team (2025)."""

    model_type = "gemma3_text"
    inside = frozenset({"gemma3"})
    example: ClassVar = (
        "Gemma3ForCausalLM",
        {**Gemma2.example[1], "sliding_window_pattern": 2, "rope_local_base_freq": 500.0},
    )

    vocab_size: int = at_least(1, default=262_208)
    max_position_embeddings: int = at_least(1, default=131_072)
    rope_theta: float = 1_000_000.0
    rope_local_base_freq: float = 10_000.0
    sliding_window_pattern: int = at_least(1, default=6)
    final_logit_softcapping: float | None = None
    attn_logit_softcapping: float | None = None
    use_bidirectional_attention: bool | None = None  # type: ignore[assignment]

    def options(self) -> dict[str, Any]:
        """Gemma 2's, with norms of queries and keys."""
        return {**super().options(), "query_norm": "head"}

    def shared(self, **options: Any) -> dict[str, Any]:
        """Gemma 2's; atoms of both directions where it reads so, as EmbeddingGemma does."""
        table = super().shared(**options)
        return {**table, "scope": {}, "heads": []} if self.use_bidirectional_attention else table

    def sliding(self) -> list[int]:
        """The layers with a window: all but the last of each few."""
        if self.layer_types is not None:
            return super().sliding()
        return [i for i in range(self.num_hidden_layers) if (i + 1) % self.sliding_window_pattern]

    def positions(self) -> list[dict[str, Any]]:
        """A window and its own rotation in some layers, and another rotation in the others."""
        size = self.sliding_window
        if size and self.use_bidirectional_attention:
            size = size // 2 + 1
        return self.local_positions(self.sliding(), self.rope_local_base_freq, size)
