"""T5's encoder: RMS norms before each stage, biases for distances, scores that are not scaled, no biases of maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import frozen

from peirce_hf.layouts.layout import PLAIN, Layout, Names, at_least, one_of
from peirce_hf.layouts.llama import ACTIVATIONS


@frozen(kw_only=True)
class T5Encoder(Layout):
    """The settings of `T5Config`, of which the encoder is taken; Raffel et al. (2020)."""

    model_type = "t5"
    prefix = ""
    tensors: ClassVar[Names] = {
        "shared": "input.embedding",
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias": "input.positions.0.table",
        "encoder.block.{layer}.layer.0.layer_norm": "layers.{layer}.norms.0",
        "encoder.block.{layer}.layer.0.SelfAttention.q": "layers.{layer}.operators.0.assoc.kernel",
        "encoder.block.{layer}.layer.0.SelfAttention.k": "layers.{layer}.operators.0.assoc.premise",
        "encoder.block.{layer}.layer.0.SelfAttention.v": "layers.{layer}.operators.1.join.premise",
        "encoder.block.{layer}.layer.0.SelfAttention.o": "layers.{layer}.operators.1.join.output",
        "encoder.block.{layer}.layer.1.layer_norm": "layers.{layer}.norms.1",
        "encoder.block.{layer}.layer.1.DenseReluDense.wo": "layers.{layer}.operators.2.*.unary.output",
        "encoder.final_layer_norm": "final_norm",
    }
    repeated: ClassVar[Mapping[str, str]] = {"encoder.embed_tokens.weight": "shared.weight"}
    example: ClassVar = (
        "T5EncoderModel",
        {
            "d_model": 24,
            "d_kv": 6,
            "d_ff": 40,
            "num_layers": 2,
            "num_heads": 3,
            "feed_forward_proj": "gated-gelu",
        },
    )

    vocab_size: int = at_least(1, default=32128)
    d_model: int = at_least(1, default=512)
    d_kv: int = at_least(1, default=64)
    d_ff: int = at_least(1, default=2048)
    num_layers: int = at_least(1, default=6)
    num_heads: int = at_least(1, default=8)
    relative_attention_num_buckets: int = at_least(4, default=32)
    relative_attention_max_distance: int = at_least(2, default=128)
    dropout_rate: float = 0.1
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: str = "relu"

    def table(self) -> Names:
        """With the maps of the feed-forward network, of which there are two where one is a gate."""
        stage, ours = "encoder.block.{layer}.layer.1.DenseReluDense", "layers.{layer}.operators.2.*.unary"
        if "-" not in self.feed_forward_proj:
            return {**self.tensors, f"{stage}.wi": f"{ours}.hidden"}
        return {**self.tensors, f"{stage}.wi_0": f"{ours}.gate", f"{stage}.wi_1": f"{ours}.hidden"}

    def spec(self) -> dict[str, Any]:
        """A transformer that gives atoms."""
        gated, _, name = self.feed_forward_proj.rpartition("-")
        known = ACTIVATIONS if gated else PLAIN
        name = "gelu_new" if gated and name == "gelu" else name  # as the class reads it
        return {
            "architecture": "transformer",
            "dims": {
                "layers": self.num_layers,
                "unary": self.d_model,
                "heads": self.num_heads,
                "head_size": self.d_kv,
                "feedforward": self.d_ff,
            },
            "options": {
                "norm": "pre",
                "norm_kind": "rms",
                "epsilon": self.layer_norm_epsilon,
                "bias": False,
                "score_scale": 1.0,
                "pooler": False,
            },
            "input": self.input(token_types=0),
            "operators": {"state": [{**one_of("feed_forward_proj", name, known), "bias": False}]},
            "positions": [
                {
                    "use": "t5",
                    "num_buckets": self.relative_attention_num_buckets,
                    "max_distance": self.relative_attention_max_distance,
                }
            ],
            "heads": [],
            "regularisation": {"dropout": self.dropout_rate},
        }
