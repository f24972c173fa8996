"""ELECTRA and ALBERT: BERTs whose embeddings are narrower than their layers; those of ALBERT are one."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from attrs import frozen

from peirce.errors import ModelFileError
from peirce_hf.layouts.bert import Bert
from peirce_hf.layouts.layout import Names, at_least


@frozen(kw_only=True)
class Electra(Bert):
    """The settings of `ElectraConfig`, with the generator's head; Clark et al. (2020)."""

    model_type = "electra"
    prefix = "electra."
    tensors: ClassVar[Names] = {**Bert.tensors, "embeddings_project": "input_map"}
    heads: ClassVar[Names] = {
        "generator_predictions.dense": "mlm.dense",
        "generator_predictions.LayerNorm": "mlm.norm",
        "generator_lm_head.bias": "mlm.bias",
        "generator_lm_head": "mlm.decoder",
    }
    head_activation: ClassVar[str | None] = "gelu"
    example: ClassVar = ("ElectraForMaskedLM", {**Bert.example[1], "embedding_size": 16})

    hidden_size: int = at_least(1, default=256)
    num_attention_heads: int = at_least(1, default=4)
    intermediate_size: int = at_least(1, default=1024)
    embedding_size: int = at_least(1, default=128)

    def spec(self) -> dict[str, Any]:
        """BERT's, with narrower embeddings."""
        spec = super().spec()
        spec["dims"]["embedding"] = self.embedding_size
        return spec


_LAYER = "encoder.albert_layer_groups.0.albert_layers.0"


@frozen(kw_only=True)
class Albert(Electra):
    """The settings of `AlbertConfig`; Lan et al. (2020)."""

    model_type = "albert"
    prefix = "albert."
    tensors: ClassVar[Names] = {
        **{name: ours for name, ours in Bert.tensors.items() if name.startswith("embeddings.")},
        "encoder.embedding_hidden_mapping_in": "input_map",
        f"{_LAYER}.attention.query": "layers.0.operators.0.assoc.kernel",
        f"{_LAYER}.attention.key": "layers.0.operators.0.assoc.premise",
        f"{_LAYER}.attention.value": "layers.0.operators.1.join.premise",
        f"{_LAYER}.attention.dense": "layers.0.operators.1.join.output",
        f"{_LAYER}.attention.LayerNorm": "layers.0.norms.0",
        f"{_LAYER}.ffn": "layers.0.operators.2.*.unary.hidden",
        f"{_LAYER}.ffn_output": "layers.0.operators.2.*.unary.output",
        f"{_LAYER}.full_layer_layer_norm": "layers.0.norms.1",
        "pooler": "pooler.dense",
    }
    heads: ClassVar[Names] = {
        "predictions.dense": "mlm.dense",
        "predictions.LayerNorm": "mlm.norm",
        "predictions.bias": "mlm.bias",
        "predictions.decoder": "mlm.decoder",
    }
    head_activation = None
    example: ClassVar = ("AlbertForMaskedLM", {**Bert.example[1], "embedding_size": 16})

    vocab_size: int = at_least(1, default=30000)
    hidden_size: int = at_least(1, default=4096)
    num_attention_heads: int = at_least(1, default=64)
    intermediate_size: int = at_least(1, default=16384)
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.0
    num_hidden_groups: Literal[1] = 1
    inner_group_num: Literal[1] = 1

    def spec(self) -> dict[str, Any]:
        """ELECTRA's, with one layer for all, and the pooler."""
        if self.embedding_size == self.hidden_size:
            raise ModelFileError(
                f"embedding_size and hidden_size are both {self.hidden_size}; an albert has a map between them even "
                "so, which a spec has only where they differ"
            )
        spec = super().spec()
        spec["options"] |= {"share": True, "pooler": f"{self.body}pooler.weight" in self.tensor_names}
        return spec
