"""RoBERTa, XLM-R and MPNet: BERTs whose places are counted from the one after the padding token, with another head."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from attrs import frozen

from peirce_hf.layouts.bert import Bert
from peirce_hf.layouts.layout import Names, at_least


@frozen(kw_only=True)
class Roberta(Bert):
    """The settings of `RobertaConfig`; Liu et al. (2019)."""

    model_type = "roberta"
    prefix = "roberta."
    heads: ClassVar[Names] = {
        "lm_head.dense": "mlm.dense",
        "lm_head.layer_norm": "mlm.norm",
        "lm_head.bias": "mlm.bias",
        "lm_head.decoder": "mlm.decoder",
    }
    head_activation = "gelu"
    example: ClassVar = ("RobertaForMaskedLM", Bert.example[1])

    vocab_size: int = at_least(1, default=50265)
    pad_token_id: int | None = 1

    @property
    def first_place(self) -> int:
        """The row of the table of positions that belongs to the first token."""
        return (1 if self.pad_token_id is None else self.pad_token_id) + 1

    def spec(self) -> dict[str, Any]:
        """BERT's, with places that begin later."""
        spec = super().spec()
        spec["positions"] = [{"use": "absolute", "first": self.first_place}]
        spec["input"]["max_length"] = self.max_position_embeddings - self.first_place
        return spec


@frozen(kw_only=True)
class XLMRoberta(Roberta):
    """The settings of `XLMRobertaConfig`; Conneau et al. (2020)."""

    model_type = "xlm-roberta"
    example: ClassVar = ("XLMRobertaForMaskedLM", Bert.example[1])

    vocab_size: int = at_least(1, default=30522)


@frozen(kw_only=True)
class MPNet(Roberta):
    """The settings of `MPNetConfig`, with T5's biases for distances, and no token types; Song et al. (2020)."""

    model_type = "mpnet"
    prefix = "mpnet."
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
