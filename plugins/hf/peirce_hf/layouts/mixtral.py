"""Mixtral: a Mistral whose tokens each go through a few of several networks."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import frozen

from peirce_hf.layouts.layout import Names, at_least
from peirce_hf.layouts.llama import Llama
from peirce_hf.layouts.mistral import Mistral

_MOE = "layers.{layer}.block_sparse_moe"
_EXPERTS = "layers.{layer}.operators.2.experts"


@frozen(kw_only=True)
class Mixtral(Mistral):
    """The settings of `MixtralConfig`; Jiang et al. (2024)."""

    model_type: ClassVar[str] = "mixtral"
    tensors: ClassVar[Names] = {
        **{name: ours for name, ours in Llama.tensors.items() if ".mlp." not in name},
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
    router_jitter_noise: float = 0.0
    output_router_logits: bool = False

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
