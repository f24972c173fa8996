"""MPNet: a RoBERTa without token types, and with T5's biases for distances."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from attrs import frozen

from peirce_hf.layouts.layout import Names, at_least
from peirce_hf.layouts.roberta import Roberta


@frozen(kw_only=True)
class MPNet(Roberta):
    """The settings of `MPNetConfig`; Song et al. (2020)."""

    model_type: ClassVar[str] = "mpnet"
    prefix: ClassVar[str] = "mpnet."
    tensors: ClassVar[Names] = {
        "embeddings.word_embeddings": "input.embedding",
        "embeddings.position_embeddings": "input.positions.0.table",
        "embeddings.LayerNorm": "input_norm",
        "encoder.relative_attention_bias": "input.positions.1.table",
        "encoder.layer.{layer}.attention.attn.q": "layers.{layer}.operators.0.assoc.kernel",
        "encoder.layer.{layer}.attention.attn.k": "layers.{layer}.operators.0.assoc.premise",
        "encoder.layer.{layer}.attention.attn.v": "layers.{layer}.operators.1.join.premise",
        "encoder.layer.{layer}.attention.attn.o": "layers.{layer}.operators.1.join.output",
        "encoder.layer.{layer}.attention.LayerNorm": "layers.{layer}.norms.0",
        "encoder.layer.{layer}.intermediate.dense": "layers.{layer}.operators.2.*.unary.hidden",
        "encoder.layer.{layer}.output.dense": "layers.{layer}.operators.2.*.unary.output",
        "encoder.layer.{layer}.output.LayerNorm": "layers.{layer}.norms.1",
        "pooler.dense": "pooler.dense",
    }
    example: ClassVar = ("MPNetForMaskedLM", Roberta.example[1])

    vocab_size: int = at_least(1, default=30527)
    type_vocab_size: Literal[0] = 0
    relative_attention_num_buckets: int = at_least(4, default=32)

    def spec(self) -> dict[str, Any]:
        """RoBERTa's, with biases that all layers share."""
        spec = super().spec()
        spec["positions"].append({"use": "t5", "num_buckets": self.relative_attention_num_buckets})
        return spec
