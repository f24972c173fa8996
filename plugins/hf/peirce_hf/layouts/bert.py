"""BERT as `transformers` saves it: norms after each stage, learned positions, token types, heads of pretraining.

DistilBERT is one without token types and pooler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from attrs import frozen

from peirce_hf.layouts.layout import PLAIN, SMALL, Layout, Names, at_least, one_of


@frozen(kw_only=True)
class Bert(Layout):
    """The settings of `BertConfig`; Devlin et al. (2018).

    Attributes:
        head_activation: that of the head over the vocabulary; that of the layers if None.
    """

    model_type = "bert"
    prefix = "bert."
    tensors: ClassVar[Names] = {
        "embeddings.word_embeddings": "input.embedding",
        "embeddings.position_embeddings": "input.positions.0.table",
        "embeddings.token_type_embeddings": "input.token_type",
        "embeddings.LayerNorm": "input_norm",
        "encoder.layer.{layer}.attention.self.query": "layers.{layer}.operators.0.assoc.kernel",
        "encoder.layer.{layer}.attention.self.key": "layers.{layer}.operators.0.assoc.premise",
        "encoder.layer.{layer}.attention.self.value": "layers.{layer}.operators.1.join.premise",
        "encoder.layer.{layer}.attention.output.dense": "layers.{layer}.operators.1.join.output",
        "encoder.layer.{layer}.attention.output.LayerNorm": "layers.{layer}.norms.0",
        "encoder.layer.{layer}.intermediate.dense": "layers.{layer}.operators.2.*.unary.hidden",
        "encoder.layer.{layer}.output.dense": "layers.{layer}.operators.2.*.unary.output",
        "encoder.layer.{layer}.output.LayerNorm": "layers.{layer}.norms.1",
        "pooler.dense": "pooler.dense",
    }
    heads: ClassVar[Names] = {
        "cls.predictions.transform.dense": "mlm.dense",
        "cls.predictions.transform.LayerNorm": "mlm.norm",
        "cls.predictions.bias": "mlm.bias",
        "cls.predictions.decoder": "mlm.decoder",
        "cls.seq_relationship": "nsp.dense",
    }
    head_activation: ClassVar[str | None] = None
    example: ClassVar = ("BertForPreTraining", SMALL)

    vocab_size: int = at_least(1, default=30522)
    hidden_size: int = at_least(1, default=768)
    num_hidden_layers: int = at_least(1, default=12)
    num_attention_heads: int = at_least(1, default=12)
    intermediate_size: int = at_least(1, default=3072)
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    max_position_embeddings: int = at_least(1, default=512)
    type_vocab_size: int = at_least(0, default=2)
    layer_norm_eps: float = 1e-12
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    add_cross_attention: Literal[False] = False

    def spec(self) -> dict[str, Any]:
        """A transformer with the norms after, and the heads that there are tensors of."""
        return {
            "architecture": "transformer",
            "dims": {
                "layers": self.num_hidden_layers,
                "unary": self.hidden_size,
                "heads": self.num_attention_heads,
                "feedforward": self.intermediate_size,
            },
            "options": {
                "norm": "post",
                "pooler": f"{self.body}pooler.dense.weight" in self.tensor_names,
                "epsilon": self.layer_norm_eps,
            },
            "input": self.input(token_types=self.type_vocab_size, max_length=self.max_position_embeddings),
            "operators": {"state": [one_of("hidden_act", self.hidden_act, PLAIN)]},
            "positions": [{"use": "absolute"}],
            "heads": [
                *self.masked_language_model(),
                *(
                    [{"use": "pair", "as": "nsp"}]
                    if "cls.seq_relationship.weight" in self.tensor_names
                    else []
                ),
            ],
            "regularisation": {"dropout": self.hidden_dropout_prob, "init_std": self.initializer_range},
        }

    def masked_language_model(self) -> list[dict[str, Any]]:
        """The head over the vocabulary, if there are tensors of it."""
        if self.published("mlm.bias") not in self.tensor_names:
            return []
        network = one_of("hidden_act", self.head_activation or self.hidden_act, PLAIN)
        shape = "gelu_tanh" if network.get("tanh") else network["use"]
        more = {"tied": self.tie_word_embeddings, "epsilon": self.layer_norm_eps}
        return [{"use": "mlm", "norm": "affine", "activation": shape, **more}]


@frozen(kw_only=True)
class DistilBert(Bert):
    """The settings of `DistilBertConfig`, by BERT's names; Sanh et al. (2019)."""

    model_type = "distilbert"
    prefix = "distilbert."
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
    aliases: ClassVar[Mapping[str, str]] = {
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
    }
    example: ClassVar = (
        "DistilBertForMaskedLM",
        {"dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 3, "max_position_embeddings": 32},
    )

    num_hidden_layers: int = at_least(1, default=6)
    type_vocab_size: Literal[0] = 0
