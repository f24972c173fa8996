"""Mistral: a Llama with a sliding window."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import frozen

from peirce_hf.layouts.layout import at_least
from peirce_hf.layouts.llama import Llama


@frozen(kw_only=True)
class Mistral(Llama):
    """The settings of `MistralConfig`; Jiang et al. (2023)."""

    model_type: ClassVar[str] = "mistral"
    example: ClassVar = ("MistralForCausalLM", {**Llama.example[1], "sliding_window": 4})

    intermediate_size: int = at_least(1, default=14336)
    num_key_value_heads: int | None = 8
    max_position_embeddings: int = at_least(1, default=131_072)
    sliding_window: int | None = 4096

    def positions(self) -> list[dict[str, Any]]:
        """Llama's, and the window."""
        return [self.rope(), *self.window(self.sliding_window)]
