"""Qwen 2 and 3: Llamas with biases of queries, keys and values, or with norms of queries and keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from attrs import frozen

from peirce_hf.layouts.layout import at_least
from peirce_hf.layouts.llama import Llama

SLIDING = "sliding_attention"
"""What `layer_types` calls a layer with a window."""


@frozen(kw_only=True)
class Qwen2(Llama):
    """The settings of `Qwen2Config`; Yang et al. (2024)."""

    model_type: ClassVar[str] = "qwen2"
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

    model_type: ClassVar[str] = "qwen3"
    example: ClassVar = ("Qwen3ForCausalLM", {**Qwen2.example[1], "head_dim": 8})

    head_dim: int | None = 128
    mlp_bias: Literal[False] = False

    def options(self) -> dict[str, Any]:
        """Norms of each head's queries and keys."""
        return {"query_norm": "head"}


def layers_of(kind: str, types: Sequence[str], count: int) -> list[int]:
    """Which of the first `count` layers are of a kind."""
    return [layer for layer, each in enumerate(types[:count]) if each == kind]
