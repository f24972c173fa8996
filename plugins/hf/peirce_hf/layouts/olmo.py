"""OLMo 2: a Llama with norms after each stage, and of queries and keys of all heads together."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import frozen

from peirce_hf.layouts.layout import Names, at_least
from peirce_hf.layouts.llama import Llama


@frozen(kw_only=True)
class Olmo2(Llama):
    """The settings of `Olmo2Config`; OLMo Team (2025)."""

    model_type: ClassVar[str] = "olmo2"
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
