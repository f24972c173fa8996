"""Phi-3: a Llama whose maps of one stage are one tensor, and of whose channels some may turn."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import frozen

from peirce_hf.layouts.layout import Names, at_least
from peirce_hf.layouts.llama import Llama


@frozen(kw_only=True)
class Phi3(Llama):
    """The settings of `Phi3Config`; Abdin et al. (2024). The scaling `longrope` is not among those of `rope`."""

    model_type: ClassVar[str] = "phi3"
    tensors: ClassVar[Names] = {
        **{name: ours for name, ours in Llama.tensors.items() if "_proj" not in name},
        "layers.{layer}.self_attn.o_proj": "layers.{layer}.operators.1.join.output",
        "layers.{layer}.mlp.down_proj": "layers.{layer}.operators.2.*.unary.output",
        "layers.{layer}.self_attn.qkv_proj": (
            "layers.{layer}.operators.0.assoc.kernel",
            "layers.{layer}.operators.0.assoc.premise",
            "layers.{layer}.operators.1.join.premise",
        ),
        "layers.{layer}.mlp.gate_up_proj": (
            "layers.{layer}.operators.2.*.unary.gate",
            "layers.{layer}.operators.2.*.unary.hidden",
        ),
    }
    partial: ClassVar[bool] = True
    example: ClassVar = (
        "Phi3ForCausalLM",
        {**Llama.example[1], "pad_token_id": 0, "partial_rotary_factor": 0.5},
    )

    vocab_size: int = at_least(1, default=32064)
    hidden_size: int = at_least(1, default=3072)
    intermediate_size: int = at_least(1, default=8192)
    max_position_embeddings: int = at_least(1, default=4096)
    rms_norm_eps: float = 1e-5
    resid_pdrop: float = 0.0
    embd_pdrop: float = 0.0
    sliding_window: int | None = None

    def positions(self) -> list[dict[str, Any]]:
        """Llama's, and a window."""
        return [self.rope(), *self.window(self.sliding_window)]
