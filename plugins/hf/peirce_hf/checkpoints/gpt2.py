"""GPT-2 as `transformers` saves it: norms before each stage, learned positions, maps that are stored transposed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from attrs import frozen

from peirce_hf.checkpoints.layout import EMBEDDING, PLAIN, Decoder, Target, at_least, one_of, weight_and_bias


@frozen(kw_only=True)
class GPT2(Decoder):
    """The settings of `GPT2Config`; Radford et al. (2019)."""

    model_type: ClassVar[str] = "gpt2"
    prefix: ClassVar[str] = "transformer."
    anchor: ClassVar[str] = "h.0.ln_1.weight"
    aliases: ClassVar[Mapping[str, str]] = {
        "hidden_size": "n_embd",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "max_position_embeddings": "n_positions",
    }
    words: ClassVar[str] = "wte"

    vocab_size: int = at_least(1, default=50257)
    n_embd: int = at_least(1, default=768)
    n_layer: int = at_least(1, default=12)
    n_head: int = at_least(1, default=12)
    n_inner: int | None = None
    n_positions: int = at_least(1, default=1024)
    activation_function: str = "gelu_new"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    scale_attn_weights: Literal[True] = True
    scale_attn_by_inverse_layer_idx: Literal[False] = False
    reorder_and_upcast_attn: bool = False
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

    def names(self) -> dict[str, Target]:
        """The body's tensors and the head's; one map reads queries, keys and values."""
        body, act = self.body, PLAIN[self.activation_function]["use"]
        table = {
            f"{body}wte.weight": Target((EMBEDDING,)),
            f"{body}wpe.weight": Target(("network.input.positions.0.table.weight",)),
            **weight_and_bias(f"{body}ln_f", "network.final_norm"),
        }
        for i in range(self.n_layer):
            theirs, layer = f"{body}h.{i}", f"network.layers.{i}"
            ours = f"{layer}.operators"
            reads = [f"{ours}.0.assoc.kernel", f"{ours}.0.assoc.premise", f"{ours}.1.join.premise"]
            table |= {
                **weight_and_bias(f"{theirs}.ln_1", f"{layer}.norms.0"),
                **weight_and_bias(f"{theirs}.attn.c_attn", *reads, transposed=True),
                **weight_and_bias(f"{theirs}.attn.c_proj", f"{ours}.1.join.output", transposed=True),
                **weight_and_bias(f"{theirs}.ln_2", f"{layer}.norms.1"),
                **weight_and_bias(f"{theirs}.mlp.c_fc", f"{ours}.2.{act}.unary.hidden", transposed=True),
                **weight_and_bias(f"{theirs}.mlp.c_proj", f"{ours}.2.{act}.unary.output", transposed=True),
            }
        return table | self.head()
