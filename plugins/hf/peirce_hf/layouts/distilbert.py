"""DistilBERT: a BERT without token types and pooler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from attrs import frozen

from peirce_hf.layouts.bert import Bert
from peirce_hf.layouts.layout import Names, at_least


@frozen(kw_only=True)
class DistilBert(Bert):
    """The settings of `DistilBertConfig`, by BERT's names; Sanh et al. (2019)."""

    model_type: ClassVar[str] = "distilbert"
    prefix: ClassVar[str] = "distilbert."
    tensors: ClassVar[Names] = {
        "embeddings.word_embeddings": "input.embedding",
        "embeddings.position_embeddings": "input.positions.0.table",
        "embeddings.LayerNorm": "input_norm",
        "transformer.layer.{layer}.attention.q_lin": "layers.{layer}.operators.0.assoc.kernel",
        "transformer.layer.{layer}.attention.k_lin": "layers.{layer}.operators.0.assoc.premise",
        "transformer.layer.{layer}.attention.v_lin": "layers.{layer}.operators.1.join.premise",
        "transformer.layer.{layer}.attention.out_lin": "layers.{layer}.operators.1.join.output",
        "transformer.layer.{layer}.sa_layer_norm": "layers.{layer}.norms.0",
        "transformer.layer.{layer}.ffn.lin1": "layers.{layer}.operators.2.*.unary.hidden",
        "transformer.layer.{layer}.ffn.lin2": "layers.{layer}.operators.2.*.unary.output",
        "transformer.layer.{layer}.output_layer_norm": "layers.{layer}.norms.1",
    }
    heads: ClassVar[Names] = {
        "vocab_transform": "mlm.dense",
        "vocab_layer_norm": "mlm.norm",
        "vocab_projector": "mlm.decoder",
        "vocab_projector.bias": "mlm.bias",
    }
    tied: ClassVar[Mapping[str, str]] = {"vocab_projector.weight": "embeddings.word_embeddings.weight"}
    repeated: ClassVar[Mapping[str, str]] = {}
    bias: ClassVar[str] = "vocab_projector.bias"
    aliases: ClassVar[Mapping[str, str]] = {
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    }
    example: ClassVar = (
        "DistilBertForMaskedLM",
        {"dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 3, "max_position_embeddings": 32},
    )

    num_hidden_layers: int = at_least(1, default=6)
    type_vocab_size: Literal[0] = 0
    sinusoidal_pos_embds: bool = False
    qa_dropout: float = 0.1
    seq_classif_dropout: float = 0.2
