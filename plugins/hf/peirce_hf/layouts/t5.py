"""T5's encoder: RMS norms before each stage, biases for distances, scores that are not scaled, no biases of maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import frozen

from peirce_hf.layouts.layout import PLAIN, Names, at_least, one_of
from peirce_hf.layouts.llama import ACTIVATIONS, Llama


@frozen(kw_only=True)
class T5Encoder(Llama):
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
    heads: ClassVar[Names] = {}
    aliases: ClassVar[Mapping[str, str]] = {
        "d_model": "hidden_size",
        "d_kv": "head_dim",
        "d_ff": "intermediate_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "dropout_rate": "attention_dropout",
        "layer_norm_epsilon": "rms_norm_eps",
    }
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
    hidden_size: int = at_least(1, default=512)
    head_dim: int = at_least(1, default=64)
    intermediate_size: int = at_least(1, default=2048)
    num_hidden_layers: int = at_least(1, default=6)
    num_attention_heads: int = at_least(1, default=8)
    tie_word_embeddings: bool = True
    attention_dropout: float = 0.1
    relative_attention_num_buckets: int = at_least(4, default=32)
    relative_attention_max_distance: int = at_least(2, default=128)
    feed_forward_proj: str = "relu"

    def table(self) -> Names:
        """With the maps of the feed-forward network, of which there are two where one is a gate."""
        stage, ours = "encoder.block.{layer}.layer.1.DenseReluDense", "layers.{layer}.operators.2.*.unary"
        if "-" not in self.feed_forward_proj:
            return {**self.tensors, f"{stage}.wi": f"{ours}.hidden"}
        return {**self.tensors, f"{stage}.wi_0": f"{ours}.gate", f"{stage}.wi_1": f"{ours}.hidden"}

    def spec(self) -> dict[str, Any]:
        """A transformer that gives atoms, of texts of any length."""
        return {**super().spec(), "scope": {}, "heads": [], "input": self.input(token_types=0)}

    def options(self) -> dict[str, Any]:
        """Scores are not scaled."""
        return {"score_scale": 1.0}

    def network(self) -> dict[str, Any]:
        """The feed-forward network, with a gate where the name says so."""
        gated, _, name = self.feed_forward_proj.rpartition("-")
        name = "gelu_new" if gated and name == "gelu" else name  # as the class reads it
        return {**one_of("feed_forward_proj", name, ACTIVATIONS if gated else PLAIN), "bias": False}

    def positions(self) -> list[dict[str, Any]]:
        """Biases for distances, which all layers share."""
        buckets, longest = self.relative_attention_num_buckets, self.relative_attention_max_distance
        return [{"use": "t5", "num_buckets": buckets, "max_distance": longest}]
