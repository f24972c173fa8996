"""GPT-2 as `transformers` saves it: norms before each stage, learned positions, maps that are stored transposed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from attrs import frozen

from peirce_hf.layouts.layout import PLAIN, QKV, Decoder, Names, at_least, one_of


@frozen(kw_only=True)
class GPT2(Decoder):
    """The settings of `GPT2Config`; Radford et al. (2019)."""

    model_type = "gpt2"
    prefix = "transformer."
    tensors: ClassVar[Names] = {
        "wte": "input.embedding",
        "wpe": "input.positions.0.table",
        "h.{layer}.ln_1": "layers.{layer}.norms.0",
        "h.{layer}.attn.c_attn": QKV,
        "h.{layer}.attn.c_proj": "layers.{layer}.operators.1.join.output",
        "h.{layer}.ln_2": "layers.{layer}.norms.1",
        "h.{layer}.mlp.c_fc": "layers.{layer}.operators.2.*.unary.hidden",
        "h.{layer}.mlp.c_proj": "layers.{layer}.operators.2.*.unary.output",
        "ln_f": "final_norm",
    }
    transposed: ClassVar[frozenset[str]] = frozenset(
        ("h.{layer}.attn.c_attn", "h.{layer}.attn.c_proj", "h.{layer}.mlp.c_fc", "h.{layer}.mlp.c_proj")
    )
    aliases: ClassVar[Mapping[str, str]] = {
        "hidden_size": "n_embd",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "max_position_embeddings": "n_positions",
    }
    example: ClassVar = ("GPT2LMHeadModel", {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 32})

    vocab_size: int = at_least(1, default=50257)
    n_embd: int = at_least(1, default=768)
    n_layer: int = at_least(1, default=12)
    n_head: int = at_least(1, default=12)
    n_inner: int | None = None
    n_positions: int = at_least(1, default=1024)
    activation_function: str = "gelu_new"
    resid_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    scale_attn_weights: Literal[True] = True
    scale_attn_by_inverse_layer_idx: Literal[False] = False
    add_cross_attention: Literal[False] = False

    def spec(self) -> dict[str, Any]:
        """A causal transformer with the norms before."""
        activation = one_of("activation_function", self.activation_function, PLAIN)
        return {
            **self.shared(epsilon=self.layer_norm_epsilon),
            "dims": {
                "layers": self.n_layer,
                "unary": self.n_embd,
                "heads": self.n_head,
                "feedforward": self.n_inner or 4 * self.n_embd,
            },
            "input": self.input(token_types=0, max_length=self.n_positions),
            "operators": {"state": [activation]},
            "positions": [{"use": "absolute"}],
            "regularisation": {"dropout": self.resid_pdrop, "init_std": self.initializer_range},
        }
