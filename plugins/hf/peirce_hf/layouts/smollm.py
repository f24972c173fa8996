"""SmolLM 3: a Llama of which some layers have no positions."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from attrs import frozen

from peirce_hf.layouts.layout import at_least
from peirce_hf.layouts.llama import Llama


@frozen(kw_only=True)
class SmolLM3(Llama):
    """The settings of `SmolLM3Config`; Hugging Face (2025)."""

    model_type: ClassVar[str] = "smollm3"
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
